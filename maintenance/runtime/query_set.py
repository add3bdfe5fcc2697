"""The queries of a run by name: texts, files, directories of files, and templates with tables of constants."""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError, nearest
from freshkeeper.maintenance.base.yaml_file import read_yaml_list
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.native.templates import QueryTemplate, templates_of
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition, RegisteredQuery
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.parser import parse as parse_query
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, tokenize
from freshkeeper.maintenance.runtime.run_config import RunConfig, read_text


def check_inputs(
    text: str, query: Query, streams: Collection[str], graphs: Collection[str], sources: Collection[str]
) -> None:
    """Raise QuerySyntaxError where a query names a stream, graph or source that is not given."""
    for window in query.windows:
        if window.stream not in streams:
            raise _missing(text, query, window.stream, streams, problem="nothing feeds the stream", option="--stream")
    for name in (*query.dataset.default_graphs, *query.dataset.named_graphs):
        if name not in graphs:
            raise _missing(text, query, name, graphs, problem="there is no file for the graph", option="--graph")
    for service in query.services:
        source = service.endpoint
        if source is not None and not service.silent and source not in sources:
            raise _missing(text, query, source, sources, problem="there is no source", option="--source")


def _missing(
    text: str, query: Query, iri: str, known: Collection[str], *, problem: str, option: str
) -> QuerySyntaxError:
    others = [name for name in known if name]
    near = f"; {nearest(iri, others)}" if others else ""
    naming = (t for t in tokenize(text).items if t.is_name and query.expression.source.resolve(t) == iri)
    first = next((token.start for token in naming), 0)
    return QuerySyntaxError(f"{problem} <{iri}>", text, first, f"give it as {option} '{iri}=FILE'{near}")


def unused(
    queries: Sequence[Query], streams: Iterable[str], graphs: Iterable[str], sources: Iterable[str]
) -> Iterator[str]:
    """Yield a message for each stream, graph or source that no query names."""
    who = "the queries ask"
    if len(queries) == 1:
        who = "the query asks"
    yield from _not_asked(who, "stream", streams, {window.stream for query in queries for window in query.windows})
    named = {name for q in queries for name in (*q.dataset.default_graphs, *q.dataset.named_graphs)}
    yield from _not_asked(who, "graph", filter(None, graphs), named)
    endpoints = {service.endpoint for query in queries for service in query.services}
    if None not in endpoints:  # SERVICE ?any asks them all
        yield from _not_asked(who, "source", sources, {name for name in endpoints if name is not None})


def _not_asked(who: str, kind: str, given: Iterable[str], asked: set[str]) -> Iterator[str]:
    for name in given:
        if name not in asked:
            yield f"{who} for no {kind} <{name}>" + (f"; {nearest(name, sorted(asked))}" if asked else "")


NAME = re.compile(r"[\w][\w.\-]*")
"""A name of a query: also that of a file."""
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|true|false")
ADDRESS = re.compile(r"(urn:|[A-Za-z][A-Za-z0-9+.\-]*://)\S+")


def read_queries(config: RunConfig, failed: Callable[[str, FreshkeeperError], None]) -> list[RegisteredQuery]:
    """Parse the queries of a run; those with a mistake are reported and left out."""
    definitions = definitions_of(config)
    combined = _templates(config, definitions)
    in_a_template = {name for one in combined.values() for name in one.names}
    queries = []
    for name, definition in definitions.items():
        if name in combined:
            queries.append(combined[name])
        elif name not in in_a_template:
            try:
                queries.append(
                    RegisteredQuery(_parse(config, definition, definition.query), name, definition=definition)
                )
            except FreshkeeperError as error:
                failed(name, error)
    return queries


def _parse(config: RunConfig, definition: QueryDefinition, text: str) -> Query:
    return parse_query(text, definition.dialect or config.dialect or None, streams=list(config.streams))


def _is_whole(config: RunConfig, template: QueryTemplate) -> bool:
    """Return whether every stream, graph and source that a template names is given."""
    try:
        check_inputs(template.text, template.query, config.streams, config.graph_files, config.sources)
    except FreshkeeperError:
        return False
    return True


def _templates(config: RunConfig, definitions: Mapping[str, QueryDefinition]) -> dict[str, RegisteredQuery]:
    """Find queries that can run as one plan, by the name of the first; their empty evaluations are left out."""
    limited = config.limit is not None or config.most_rows is not None
    if config.evaluator is EvaluatorKind.SNAPSHOT or config.state is not None or config.empty or limited:
        return {}
    by_dialect: dict[str, dict[str, QueryDefinition]] = {}
    for name, definition in definitions.items():
        if not definition.limits:
            by_dialect.setdefault(definition.dialect, {})[name] = definition
    found = {}
    for group in by_dialect.values():
        first = next(iter(group.values()))
        texts = {name: definition.query for name, definition in group.items()}
        for template in templates_of(texts, partial(_parse, config, first), config.graph_files):
            if _is_whole(config, template):
                definition = first.model_copy(update={"query": template.text})
                name = template.names[0]
                found[name] = RegisteredQuery(template.query, name, definition=definition, template=template)
    return found


def definitions_of(config: RunConfig) -> dict[str, QueryDefinition]:
    """Read the texts of all queries by name; ConfigError if one cannot be found or filled in."""
    found: dict[str, QueryDefinition] = {}
    places: dict[str, str] = {}
    for name, place, definition in _definitions(config):
        if not NAME.fullmatch(name):
            raise ConfigError(f"a query is called {name!r}: take letters, digits, '_', '-' and '.'")
        if name in found:
            raise ConfigError(f"two queries are called {name}: {places[name]} and {place}")
        found[name], places[name] = definition, place
    if not found:
        raise ConfigError("there are no queries: give some files, a directory of them, queries: or templates:")
    return found


def _definitions(config: RunConfig) -> Iterator[tuple[str, str, QueryDefinition]]:
    """Yield name, place in the config and definition of every query."""
    for name, definition in config.queries.items():
        place = f"queries.{name}" if "{" in definition.query else definition.query
        yield name, place, definition.model_copy(update={"query": read_text(definition.query)})
    for name, template in config.templates.items():
        yield from _instances(name, template)


def _instances(name: str, template: QueryDefinition) -> Iterator[tuple[str, str, QueryDefinition]]:
    """Yield a query for each row of the table, named by its column `name`, or else by its number."""
    text, rows = read_text(template.query), list(_rows(name, template.instances or []))
    tokens = [t for t in tokenize(text).items if t.kind is TokenKind.VAR and t.text.startswith("$")]
    if not tokens:
        raise ConfigError(f"the template {name} has no $name that a constant of its table takes the place of")
    table = template.instances if isinstance(template.instances, str) else f"templates.{name}.instances"
    for number, row in enumerate(rows, 1):
        place = f"row {number} of {table}"
        row_name = str(row.get("name") or number)
        filled = _filled(name, text, tokens, row, place)
        yield f"{name}.{row_name}", place, template.model_copy(update={"query": filled})


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
    """Write a constant as SPARQL does: <IRI> or a bare one, "literal" with what follows it, a number, or plain text."""
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
