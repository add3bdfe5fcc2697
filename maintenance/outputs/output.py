"""Results as text: NDJSON with freshness, SPARQL-JSON, CSV, or timestamped N-Quads that another query can read."""

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
from freshkeeper.maintenance.engine.evaluator import LazyRows, Term
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.freshness_columns import CERTAIN, FreshnessColumns
from freshkeeper.maintenance.engine.native.id_rows import IdRows
from freshkeeper.maintenance.engine.native.json_terms import JsonTerms
from freshkeeper.maintenance.engine.native.ndjson import JsonAnswers
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.query.model import Form

QUERY_GRAPH = "freshkeeper:query/"
REMEMBERED = 100_000
"""Terms whose text is kept."""
TORN_ROW = '#"\n'
"""Ends a row of CSV that was cut off, also within quotes, and marks it: a number that lost its last digits is none."""


@lru_cache(maxsize=REMEMBERED)
def _term(term: Term) -> str:
    """A term as SPARQL-JSON text; the same terms come again and again."""
    return json.dumps(term_json(term), ensure_ascii=False)


@dataclass(eq=False)
class NdJson:
    """One line of JSON per evaluation, each answer with its freshness."""

    empty: bool = True
    """whether an evaluation without answers has a line"""
    of_columns: dict[Dictionary, JsonAnswers] = field(default_factory=dict)

    def lines(self, result: Result) -> Iterator[str]:
        """The line of one evaluation."""
        if isinstance(result.answers, IdRows):
            if line := b"".join(map(bytes, self.chunks(result, result.answers))):
                yield line.decode()
            return
        answers = _spliced(result) or ", ".join(self._answers(result))
        if answers or self.empty:
            yield f"{head_of(result)}{answers}{tail_of(result)}"

    def chunks(self, result: Result, rows: IdRows) -> Iterator[memoryview]:
        """The same as bytes, of answers that are columns; each piece must be taken before the next."""
        if not (len(rows) or self.empty):
            return
        if rows.dictionary not in self.of_columns:
            self.of_columns[rows.dictionary] = JsonAnswers(JsonTerms(rows.dictionary))
        freshness = CERTAIN if result.freshness is None else FreshnessColumns.of(result.freshness)
        head, tail = head_of(result).encode(), tail_of(result).encode()
        yield from self.of_columns[rows.dictionary].chunks(rows, result.variables, freshness, head, tail)

    def _answers(self, result: Result) -> Iterator[str]:
        if result.form is Form.SELECT:
            yield from self._solutions(result)
        else:
            for number, answer in enumerate(result.answers):
                shown = {"boolean": answer} if isinstance(answer, bool) else {"triple": f"{answer} ."}
                yield f"{json.dumps(shown, ensure_ascii=False)[:-1]}, {_freshness(result, number)}}}"

    def _solutions(self, result: Result) -> Iterator[str]:
        names = [f"{json.dumps(name)}: " for name in result.variables]
        for number, row in enumerate(result.answers):
            assert isinstance(row, tuple)
            bindings = ", ".join([n + _term(t) for n, t in zip(names, row, strict=True) if t is not None])
            yield f'{{"bindings": {{{bindings}}}, {_freshness(result, number)}}}'


def head_of(result: Result) -> str:
    """What stands before the answers of an evaluation."""
    query = f', "query": {_quoted(result.query)}' if result.query else ""
    windows = ", ".join(f"{_quoted(name)}: [{opens}, {closes}]" for name, (opens, closes) in result.windows.items())
    return f'{{"t": {result.t}{query}, "windows": {{{windows}}}, "op": "{result.operator.value}", "answers": ['


def tail_of(result: Result) -> str:
    """What stands behind them."""
    errors = f', "errors": {result.errors}' if result.errors else ""
    return f'], "late": {result.late}{errors}}}\n'


@lru_cache(maxsize=10_000)
def _quoted(name: str) -> str:
    """A name as JSON; of thousands of queries each comes again and again."""
    return json.dumps(name, ensure_ascii=False)


def _spliced(result: Result) -> str | None:
    """Certain solutions as the library writes them, cut where one ends and the next begins.

    In JSON text `}},{"` followed by a variable's name and `":{"type":"` is such a place and nothing else: a quote
    inside a string has a backslash before it, and one that ends a string is followed by a comma or a bracket.
    """
    raw = result.answers.json() if isinstance(result.answers, LazyRows) and result.freshness is None else None
    if raw is None:
        return None
    text = raw.decode()
    rows = text[text.index(_ROWS) + len(_ROWS) : -len("]}}")]
    if not rows:
        return ""
    if "{}" in rows:  # a solution that binds nothing has another boundary
        each = [json.dumps(row, ensure_ascii=False) for row in json.loads(text)["results"]["bindings"]]
        return ", ".join(f'{{"bindings": {row}, "fresh": 1.0}}' for row in each)
    names = "|".join(re.escape(json.dumps(name)[1:-1]) for name in result.variables)
    between = re.compile(rf'\}}\}},\{{"(?=(?:{names})":\{{"type":")')
    return f'{{"bindings": {between.sub(_BETWEEN, rows)}, "fresh": 1.0}}'


_ROWS = '"results":{"bindings":['
_BETWEEN = '}}, "fresh": 1.0}, {"bindings": {"'


def _freshness(result: Result, number: int) -> str:
    if result.freshness is None:
        return '"fresh": 1.0'
    fresh = result.freshness[number]
    age = "" if fresh.age is None else f', "age_ms": {fresh.age}'
    return f'"fresh": {round(fresh.probability, 6)}{age}'


@dataclass(eq=False)
class SparqlJson:
    """One SPARQL-JSON document per line, with the instant as `t`; SELECT and ASK alone have one."""

    empty: bool = True

    def lines(self, result: Result) -> Iterator[str]:
        """The line of one evaluation."""
        own = {"t": result.t} | ({"query": result.query} if result.query else {})
        if result.form is Form.ASK:
            for answer in result.answers:  # none where ISTREAM or DSTREAM streams nothing
                yield json.dumps(own | {"head": {}, "boolean": answer}) + "\n"
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
        head = json.dumps(own | {"head": {"vars": list(result.variables)}})[:-1]
        yield f'{head}, "results": {{"bindings": [{", ".join(rows)}]}}}}\n'


@dataclass(eq=False)
class Csv:
    """One row per answer: the instant, the values of the variables, the freshness."""

    headed: bool = False

    def lines(self, result: Result) -> Iterator[str]:
        """The rows of one evaluation, after the head of the table."""
        if result.form not in (Form.SELECT, Form.ASK):
            raise ConfigError(f"--format csv writes SELECT and ASK, not {result.form}: take nquads or ndjson")
        names = ("boolean",) if result.form is Form.ASK else result.variables
        if not self.headed and names:
            self.headed = True
            time, fresh = (f"_{own}" if own in names else own for own in ("t", "fresh"))
            yield _csv([time, *names, fresh])
        for number, row in enumerate(result.answers):
            cells = ["" if t is None else _plain(t) for t in row] if isinstance(row, tuple) else [str(row).lower()]
            yield _csv([str(result.t), *cells, str(round(result.fresh(number).probability, 6))])


def _csv(cells: list[str]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow(cells)  # what may end a line is within quotes
    return written.getvalue()[:-2] + "\n"


def _plain(term: Term) -> str:
    """As SPARQL 1.1 CSV writes terms: values without types."""
    if isinstance(term, BlankNode | Triple):
        return text_of(term)
    return term.value


@dataclass(eq=False)
class TimedQuads:
    """The triples of CONSTRUCT as a stream: `<ms>` TAB `<triple> .`, which `--stream` reads again.

    The query's name, where it has one, is that of a graph: who reads a stream leaves graphs out.
    """

    def lines(self, result: Result) -> Iterator[str]:
        """A line per triple."""
        if result.form not in (Form.CONSTRUCT, Form.DESCRIBE):
            raise ConfigError(f"--format nquads writes triples, and {result.form} gives none: take ndjson or csv")
        graph = f"<{QUERY_GRAPH}{result.query}> " if result.query else ""
        for triple in result.answers:
            yield f"{result.t}\t{triple} {graph}.\n"


Writer = NdJson | SparqlJson | Csv | TimedQuads


def chunks(writer: Writer, result: Result) -> Iterator[bytes | memoryview]:
    """What is written of one evaluation, in pieces: each must be taken before the next; the first alone may fail."""
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
    """The writer of a format.

    `headed` where a table goes on that has its head; `empty` says whether evaluations without answers have a line.
    """
    if name not in FORMATS:
        raise ConfigError(f"no format {name!r}: {nearest(name, list(FORMATS))}")
    if name == "csv":
        return Csv(headed)
    return TimedQuads() if name == "nquads" else NdJson(empty=empty) if name == "ndjson" else SparqlJson(empty=empty)
