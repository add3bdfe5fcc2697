"""Formats of results: NDJSON with freshness, SPARQL-JSON, CSV, or timestamped N-Quads that another query can read."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from pyoxigraph import BlankNode, Triple

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.base.terms import term_json, text_of
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.id_rows import IdRows
from freshkeeper.maintenance.engine.evaluator import LazyRows, Term
from freshkeeper.maintenance.engine.native.ndjson import JsonAnswers, JsonTerms
from freshkeeper.maintenance.engine.r2s import CERTAIN_COLUMNS, FreshnessColumns, Result
from freshkeeper.maintenance.query.model import Form

QUERY_GRAPH = "freshkeeper:query/"
MAX_CACHED_TERMS = 100_000
PARTIAL_ROW_END = '#"\n'
"""Ends a row of CSV that was cut off, even within quotes, and marks it: a number that lost its last digits is wrong."""


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _term(term: Term) -> str:
    """Return a term as SPARQL-JSON text, cached because terms recur."""
    return json.dumps(term_json(term), ensure_ascii=False)


@dataclass(eq=False)
class NdJson:
    """Lines of JSON, one per evaluation, with the freshness of every answer."""

    empty: bool = True
    """whether an evaluation without answers has a line"""
    of_columns: dict[Dictionary, JsonAnswers] = field(default_factory=dict)

    def lines(self, result: Result) -> Iterator[str]:
        if isinstance(result.answers, IdRows):
            line = b"".join(map(bytes, self.chunks(result, result.answers)))
            if line:
                yield line.decode()
            return
        answers = _splice(result) or ", ".join(self._answers(result))
        if answers or self.empty:
            yield f"{head_of(result)}{answers}{tail_of(result)}"

    def chunks(self, result: Result, rows: IdRows) -> Iterator[memoryview]:
        """Yield the line of answers that are columns, as bytes; each piece must be used before the next."""
        if not (len(rows) or self.empty):
            return
        if rows.dictionary not in self.of_columns:
            self.of_columns[rows.dictionary] = JsonAnswers(JsonTerms(rows.dictionary))
        freshness = CERTAIN_COLUMNS
        if result.freshness is not None:
            freshness = FreshnessColumns.of(result.freshness)
        head, tail = head_of(result).encode(), tail_of(result).encode()
        yield from self.of_columns[rows.dictionary].chunks(rows, result.variables, freshness, head, tail)

    def _answers(self, result: Result) -> Iterator[str]:
        if result.form is Form.SELECT:
            yield from self._solutions(result)
            return
        for number, answer in enumerate(result.answers):
            if isinstance(answer, bool):
                text = json.dumps({"boolean": answer})
            else:
                text = json.dumps({"triple": f"{answer} ."}, ensure_ascii=False)
            yield f"{text[:-1]}, {_freshness(result, number)}}}"

    def _solutions(self, result: Result) -> Iterator[str]:
        names = [f"{json.dumps(name)}: " for name in result.variables]
        for number, row in enumerate(result.answers):
            assert isinstance(row, tuple)
            bindings = ", ".join([n + _term(t) for n, t in zip(names, row, strict=True) if t is not None])
            yield f'{{"bindings": {{{bindings}}}, {_freshness(result, number)}}}'


def head_of(result: Result) -> str:
    """Return the JSON before the answers of an evaluation."""
    query = ""
    if result.query:
        query = f', "query": {_quoted(result.query)}'
    windows = ", ".join(f"{_quoted(name)}: [{opens}, {closes}]" for name, (opens, closes) in result.windows.items())
    return f'{{"t": {result.t}{query}, "windows": {{{windows}}}, "op": "{result.operator.value}", "answers": ['


def tail_of(result: Result) -> str:
    """Return the JSON behind the answers of an evaluation."""
    errors = ""
    if result.errors:
        errors = f', "errors": {result.errors}'
    return f'], "late": {result.late}{errors}}}\n'


@lru_cache(maxsize=10_000)
def _quoted(name: str) -> str:
    """Return a name as JSON, cached because the names of queries recur."""
    return json.dumps(name, ensure_ascii=False)


def _splice(result: Result) -> str | None:
    """Return certain solutions from the library's JSON, cut where one solution ends and the next begins, or None.

    In JSON text `}},{"` followed by a variable's name and `":{"type":"` is such a place and nothing else: a quote
    inside a string has a backslash before it, and one that ends a string is followed by a comma or a bracket.
    """
    if not isinstance(result.answers, LazyRows) or result.freshness is not None:
        return None
    raw = result.answers.json()
    if raw is None:
        return None
    text = raw.decode()
    rows = text[text.index(_ROWS) + len(_ROWS) : -len("]}}")]
    if not rows:
        return ""
    if "{}" in rows:  # a solution that binds nothing has another boundary
        solutions = json.loads(text)["results"]["bindings"]
        bindings = (json.dumps(solution, ensure_ascii=False) for solution in solutions)
        return ", ".join(f'{{"bindings": {binding}, "fresh": 1.0}}' for binding in bindings)
    names = "|".join(re.escape(json.dumps(name)[1:-1]) for name in result.variables)
    boundary = re.compile(rf'\}}\}},\{{"(?=(?:{names})":\{{"type":")')
    return f'{{"bindings": {boundary.sub(_BOUNDARY, rows)}, "fresh": 1.0}}'


_ROWS = '"results":{"bindings":['
_BOUNDARY = '}}, "fresh": 1.0}, {"bindings": {"'


def _freshness(result: Result, number: int) -> str:
    if result.freshness is None:
        return '"fresh": 1.0'
    fresh = result.freshness[number]
    age = ""
    if fresh.age is not None:
        age = f', "age_ms": {fresh.age}'
    return f'"fresh": {round(fresh.probability, 6)}{age}'


@dataclass(eq=False)
class SparqlJson:
    """A SPARQL-JSON document per line, with the instant as `t`, for SELECT and ASK."""

    empty: bool = True

    def lines(self, result: Result) -> Iterator[str]:
        begin: dict[str, object] = {"t": result.t}
        if result.query:
            begin["query"] = result.query
        if result.form is Form.ASK:
            for answer in result.answers:  # none where ISTREAM or DSTREAM streams nothing
                yield json.dumps(begin | {"head": {}, "boolean": answer}) + "\n"
            return
        if result.form is not Form.SELECT:
            raise ConfigError(f"--format sparql-json writes SELECT and ASK, not {result.form}: take nquads or ndjson")
        rows = []
        for row in result.answers:
            assert isinstance(row, tuple)
            pairs = zip(result.variables, row, strict=True)
            rows.append("{" + ", ".join(f"{json.dumps(n)}: {_term(t)}" for n, t in pairs if t) + "}")
        if not rows and not self.empty:
            return
        head = json.dumps(begin | {"head": {"vars": list(result.variables)}})[:-1]
        yield f'{head}, "results": {{"bindings": [{", ".join(rows)}]}}}}\n'


@dataclass(eq=False)
class Csv:
    """A row per answer: the instant, the values of the variables, the freshness."""

    headed: bool = False

    def lines(self, result: Result) -> Iterator[str]:
        if result.form not in (Form.SELECT, Form.ASK):
            raise ConfigError(f"--format csv writes SELECT and ASK, not {result.form}: take nquads or ndjson")
        names = result.variables
        if result.form is Form.ASK:
            names = ("boolean",)
        if not self.headed and names:
            self.headed = True
            # a variable may have the name of our columns
            time, fresh = (f"_{column}" if column in names else column for column in ("t", "fresh"))
            yield _csv([time, *names, fresh])
        for number, row in enumerate(result.answers):
            cells = [str(row).lower()]
            if isinstance(row, tuple):
                cells = list(map(_cell, row))
            yield _csv([str(result.t), *cells, str(round(result.fresh(number).probability, 6))])


def _csv(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # with this terminator, line breaks in cells are quoted
    return text.getvalue()[:-2] + "\n"


def _cell(term: Term | None) -> str:
    """Return a term as SPARQL 1.1 CSV writes it: the value without its type."""
    if term is None:
        return ""
    if isinstance(term, BlankNode | Triple):
        return text_of(term)
    return term.value


@dataclass(eq=False)
class TimedQuads:
    """The triples of CONSTRUCT as a stream: `<ms>` TAB `<triple> .`, which `--stream` reads again.

    A query's name becomes the name of a graph, because readers of a stream ignore graphs.
    """

    def lines(self, result: Result) -> Iterator[str]:
        if result.form not in (Form.CONSTRUCT, Form.DESCRIBE):
            raise ConfigError(f"--format nquads writes triples, and {result.form} gives none: take ndjson or csv")
        graph = ""
        if result.query:
            graph = f"<{QUERY_GRAPH}{result.query}> "
        for triple in result.answers:
            yield f"{result.t}\t{triple} {graph}.\n"


Writer = NdJson | SparqlJson | Csv | TimedQuads


def chunks(writer: Writer, result: Result) -> Iterator[bytes | memoryview]:
    """Yield the text of one evaluation in pieces, each of which must be used before the next.

    Only the first may fail.
    """
    if isinstance(writer, NdJson) and isinstance(result.answers, IdRows):
        yield from writer.chunks(result, result.answers)
    else:
        yield "".join(writer.lines(result)).encode()


FORMATS: dict[str, Callable[[], Writer]] = {
    "ndjson": NdJson,
    "sparql-json": SparqlJson,
    "csv": Csv,
    "nquads": TimedQuads,
}


def writer(name: str, headed: bool = False, empty: bool = True) -> Writer:
    """Return the writer of a format.

    `headed` is set to resume a table that has its head, `empty` to write lines for evaluations without answers.
    """
    if name not in FORMATS:
        raise ConfigError(f"no format {name!r}: {nearest(name, list(FORMATS))}")
    if name == "csv":
        return Csv(headed)
    if name == "nquads":
        return TimedQuads()
    if name == "ndjson":
        return NdJson(empty=empty)
    return SparqlJson(empty=empty)
