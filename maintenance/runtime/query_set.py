"""The queries of a run by name: texts, files, directories of files, and templates with tables of constants."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError, nearest
from freshkeeper.maintenance.base.yaml_file import read_yaml_list
from freshkeeper.maintenance.engine.native.evaluator_kind import EvaluatorKind
from freshkeeper.maintenance.engine.native.templates import Template, templates_of
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.parser import parse as parse_query
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, tokenize
from freshkeeper.maintenance.runtime.input_checks import check_inputs
from freshkeeper.maintenance.runtime.query_files import read_text
from freshkeeper.maintenance.runtime.run_config import QueryConfig, RunConfig, TemplateConfig

NAME = re.compile(r"[\w][\w.\-]*")
"""A name of a query: also that of a file."""
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|true|false")
ADDRESS = re.compile(r"(urn:|[A-Za-z][A-Za-z0-9+.\-]*://)\S+")


@dataclass(frozen=True, eq=False)
class RunQuery:
    """One query of a run, with what is its own of the settings."""

    name: str
    text: str
    query: Query
    own: QueryConfig = field(default_factory=QueryConfig)
    template: Template | None = None
    """several that differ in constants alone: it has the name of the first, and all else is that of all"""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that it stands for."""
        return (self.name,) if self.template is None else self.template.names


@dataclass(frozen=True, eq=False)
class NamedText:
    """The text of a query, and where it is from."""

    name: str
    text: str
    where: str
    own: QueryConfig


def read_queries(config: RunConfig, failed: Callable[[str, FreshkeeperError], None]) -> list[RunQuery]:
    """The queries of a run; one that cannot be read as a query is told of and left out."""
    texts = named_texts(config)
    together = _templates(config, texts)
    others = {name for each in together.values() for name in each.names} - {*together}
    found = []
    for each in texts:
        if each.name in others:
            continue
        try:
            alone = each.name not in together
            found.append(_alone(config, each) if alone else together[each.name])
        except FreshkeeperError as error:
            failed(each.name, error)
    return found


def _alone(config: RunConfig, each: NamedText) -> RunQuery:
    return RunQuery(each.name, each.text, _read(config, each.own, each.text), each.own)


def _read(config: RunConfig, own: QueryConfig, text: str) -> Query:
    return parse_query(text, own.dialect or config.dialect or None, streams=list(config.streams))


def _is_whole(config: RunConfig, one: Template) -> bool:
    """Whether everything that its queries ask is given."""
    try:
        check_inputs(one.text, one.query, config.streams, config.graph_files, config.sources)
    except FreshkeeperError:
        return False
    return True


def _templates(config: RunConfig, texts: Sequence[NamedText]) -> dict[str, RunQuery]:
    """Queries that are one plan, by the name of the first; evaluations of theirs that are empty are left out."""
    if config.evaluator is EvaluatorKind.SNAPSHOT or config.state is not None or config.empty or _limited(config):
        return {}
    groups: dict[str, list[NamedText]] = {}
    for each in texts:
        if not _limited(each.own):
            groups.setdefault(each.own.dialect, []).append(each)
    found = {}
    for group in groups.values():
        own, alike = group[0].own, {each.name: each.text for each in group}
        templates = templates_of(alike, partial(_read, config, own), config.graph_files)
        for one in filter(partial(_is_whole, config), templates):
            found[one.names[0]] = RunQuery(one.names[0], one.text, one.query, own, one)
    return found


def _limited(config: RunConfig | QueryConfig) -> bool:
    return config.limit is not None or config.most_rows is not None


def named_texts(config: RunConfig) -> list[NamedText]:
    """Their texts, every name once; what cannot be found or filled in is an error before anything runs."""
    found: dict[str, NamedText] = {}
    for each in _texts(config):
        if not NAME.fullmatch(each.name):
            raise ConfigError(f"a query is called {each.name!r}: take letters, digits, '_', '-' and '.'")
        if each.name in found:
            raise ConfigError(f"two queries are called {each.name}: {found[each.name].where} and {each.where}")
        found[each.name] = each
    if not found:
        raise ConfigError("there are no queries: give some files, a directory of them, queries: or templates:")
    return list(found.values())


def _texts(config: RunConfig) -> Iterator[NamedText]:
    for name, own in config.queries.items():
        yield NamedText(name, read_text(own.query), f"queries.{name}" if "{" in own.query else own.query, own)
    for name, template in config.templates.items():
        yield from _instances(name, template)


def _instances(name: str, template: TemplateConfig) -> Iterator[NamedText]:
    """One query for each row of the table; a column `name` names them, or else their numbers do."""
    text, rows = read_text(template.query), list(_rows(name, template.instances))
    tokens = [t for t in tokenize(text).items if t.kind is TokenKind.VAR and t.text.startswith("$")]
    if not tokens:
        raise ConfigError(f"the template {name} has no $name that a constant of its table takes the place of")
    where = template.instances if isinstance(template.instances, str) else f"templates.{name}.instances"
    for number, row in enumerate(rows, 1):
        place = f"row {number} of {where}"
        own = str(row.get("name") or number)
        yield NamedText(f"{name}.{own}", _filled(name, text, tokens, row, place), place, template)


def _filled(name: str, text: str, tokens: Iterable[Token], row: Mapping[str, Any], place: str) -> str:
    parts, end = [], 0
    for token in tokens:
        column = token.text[1:]
        if column not in row:
            near = nearest(column, list(row))
            raise ConfigError(f"the template {name} asks for {token.text}, and {place} has no such column; {near}")
        if row[column] is None or row[column] == "":
            raise ConfigError(f"the template {name} asks for {token.text}, and {place} has nothing in that column")
        parts += [text[end : token.start], term_of(row[column], f"{column} in {place}")]
        end = token.end
    return "".join([*parts, text[end:]])


def term_of(cell: object, where: str) -> str:
    """A constant as SPARQL writes it: <IRI> or a bare one, "literal" with what follows it, a number, or plain text."""
    if isinstance(cell, bool | int | float):
        return str(cell).lower()
    written = str(cell).strip()
    if NUMBER.fullmatch(written):
        return written
    if written.startswith(("<", '"')):
        try:
            (quad,) = parse(f"<a:a> <a:a> {written} .", format=RdfFormat.N_TRIPLES)
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{where} is no term: {written!r}: {error}") from None
        return str(quad.object)
    if ADDRESS.fullmatch(written):
        try:
            return str(NamedNode(written))
        except ValueError as error:
            raise ConfigError(f"{where} is no IRI: {written!r}: {error}") from None
    return str(Literal(written))


def _rows(name: str, instances: str | list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    rows: Iterable[Any] = instances if isinstance(instances, list) else _table(name, Path(instances))
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise ConfigError(f"the template {name} has no instances: {instances or 'its table'} holds no rows")


def _table(name: str, path: Path) -> Iterable[dict[str, Any]]:
    """CSV with a head, or a list of rows in YAML."""
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_yaml_list(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            read = csv.DictReader(file, strict=True)
            rows = list(read)
    except OSError as error:
        raise ConfigError(f"the instances of the template {name}, {path}, cannot be read: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"the instances of the template {name}, {path}, are no CSV in UTF-8: {error}") from None
    for number, row in enumerate(rows, 1):
        if None in row:
            raise ConfigError(f"row {number} of {path} has more cells than its head")
    return rows
