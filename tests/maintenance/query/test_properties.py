"""Generated query objects survive printing; mutated and random texts parse or raise the front end's own error."""

from contextlib import suppress
from pathlib import Path

from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.query.explain import explain_text
from freshkeeper.maintenance.query.model import (
    Dataset,
    EvaluationTimes,
    Form,
    Operator,
    Query,
    QueryExpression,
    Report,
    StreamWindow,
    WindowKind,
)
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.printing import to_dialect
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.query_errors import DialectError, QuerySyntaxError

CASES = Path(__file__).parents[2] / "cases" / "query"
TEXTS = [p.read_text(encoding="utf-8") for p in sorted(CASES.glob("*/*")) if p.suffix != ".txt"]
PROLOGUE = Prologue("http://base/", (("", "http://e/"), ("ex", "http://example.org/x#")))

names = st.integers(0, 9).map(lambda n: f"http://e/n{n}")
durations = st.integers(1, 10**12)
instants = st.none() | st.integers(0, 10**13)
patterns = st.sampled_from(
    ["?a :p ?b", "?a <rel> 'x }' # c\n", "OPTIONAL { ?a ex:q [] }", "GRAPH :g { ?a ?p ?b }", "GRAPH ?g { ?a :p ?b }",
     "FILTER(?a<?b&&?b>3)", "SERVICE :e { ?a :p ?b }", "{ SELECT ?a { ?a :r ?b } }", "VALUES ?a { :x \"y\"@en }",
     "MINUS { ?a :p ?b }", "{ BIND(IRI('z') AS ?z1) }", "?a :p/^ex:q* ?b ; a :T"]
)  # fmt: skip
in_windows = patterns.filter(lambda pattern: "GRAPH" not in pattern)


@st.composite
def windows(draw: st.DrawFn, name: str) -> StreamWindow:
    """object window."""
    stream, t0, named = draw(names), draw(instants), draw(st.booleans())
    kind = draw(st.sampled_from(WindowKind))
    if kind is WindowKind.TIME:
        closure, lag = draw(st.sampled_from(Closure)), draw(st.just(0) | durations)
        return StreamWindow(name, stream, kind, draw(durations), draw(st.none() | durations), t0, closure, named, lag)
    if kind is WindowKind.ELEMENTS:
        counts = st.integers(1, 10**6)
        return StreamWindow(name, stream, kind, draw(counts), draw(counts), t0, is_named=named)
    return StreamWindow(name, stream, kind, 1 if kind is WindowKind.NOW else None, None, t0, is_named=named)


@st.composite
def times(draw: st.DrawFn, declared: tuple[StreamWindow, ...], output: str | None) -> EvaluationTimes:
    """Report policies that fit the windows."""
    every = draw(st.none() | durations) if output is not None else None
    if not declared:
        return EvaluationTimes((Report.PERIODIC,), every) if every is not None else EvaluationTimes(())
    possible = [Report.NON_EMPTY, Report.ON_CONTENT_CHANGE]
    if any(window.step is not None for window in declared):
        possible.append(Report.ON_WINDOW_CLOSE)
    chosen = draw(st.sets(st.sampled_from(possible), min_size=0 if every is not None else 1))
    return EvaluationTimes(tuple(sorted(chosen | ({Report.PERIODIC} if every is not None else set()))), every)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """object query object that a text can stand for."""
    count = draw(st.integers(0, 4))
    declared = tuple(draw(windows(f"http://e/w{n}")) for n in range(count))
    output = draw(names) if declared else None
    output = draw(st.sampled_from([output, None]))
    blocks = [f"WINDOW <{w.name}> {{ {draw(in_windows)} }}" for w in declared if w.is_named]
    if bool(blocks) and draw(st.booleans()):
        blocks.append(f"WINDOW ?w {{ {draw(in_windows)} }}")
    body = draw(st.permutations(blocks + draw(st.lists(patterns, max_size=3))))
    form = draw(st.sampled_from([Form.SELECT, Form.CONSTRUCT, Form.ASK, Form.DESCRIBE]))
    rest = {
        Form.SELECT: draw(st.sampled_from(["DISTINCT *", "?a (1 AS ?made)", "(?a + 1 AS ?more) # c\n ?b"])),
        Form.CONSTRUCT: "{ ?a :made 'WHERE {' }",
        Form.DESCRIBE: "?a :thing",
        Form.ASK: "",
    }[form]
    head = f"{form} {rest}".strip()
    tail = draw(st.sampled_from(["", "ORDER BY ?a", "LIMIT 3", "VALUES ?v { 1 <x> }"]))
    where = "{ " + " . ".join(body) + " }"
    return Query(
        QueryExpression(PROLOGUE, head, where, tail),
        form,
        Dataset(tuple(draw(st.sets(names, max_size=2))), tuple(draw(st.sets(names, max_size=2))), declared),
        draw(times(declared, output)),
        draw(st.sampled_from(Operator)) if declared else Operator.RSTREAM,
        output,
    )


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(queries())
def test_parsing_what_was_printed_gives_the_query_again(query: Query) -> None:
    printed = to_dialect(query)
    assert parse(printed) == query
    assert to_dialect(parse(printed)) == printed


WORDS = """
SELECT CONSTRUCT ASK DESCRIBE REGISTER STREAM QUERY RSTREAM ISTREAM AS FROM NAMED WINDOW ON WHERE RANGE STEP SLIDE
TRIPLES ELEMENTS NOW ALL TUMBLING REPORT NON_EMPTY PERIODIC COMPUTED EVERY STARTING AT CLOSURE RIGHT_OPEN PREFIX BASE
OPTIONAL UNION MINUS GRAPH SERVICE SILENT FILTER EXISTS NOT BIND VALUES GROUP BY HAVING ORDER LIMIT COUNT LATERAL
{ } [ ] ( ) . ; , * + - / | ^ ! = < > <= << >> && || ^^ @en " ' # \\ ?x ?y $z ? <http://e/s> <w> <> : :w ex:y _:b
10s PT5S 0 1.5 -3 1e400 'str' "str" true a \u00e9 é 😀
"""
SOUP = [*WORDS.split(), '"""', "'''", "\x00", "\t", "\n", '"""long"""']
soups = st.lists(st.sampled_from(SOUP), max_size=40).map(" ".join)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A case file with a few pieces cut out, doubled, moved or put in."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + 40)))
        piece = draw(st.sampled_from(["", text[start:stop] * 2, *SOUP]) | st.text(max_size=5))
        at = draw(st.sampled_from([start, draw(st.integers(0, len(text)))]))
        text = text[:start] + text[stop:] if at != start else text[:start] + piece + text[stop:]
        text = text if at == start else text[:at] + piece + text[at:]
    return text


def check_survives(text: str, dialect: str | None) -> str:
    """The text parses and can be used, or the front end's own error says why not."""
    try:
        query = parse(text, dialect)
    except QuerySyntaxError as error:
        return str(error)
    assert parse(to_dialect(query)) == query
    for other in ("cqels", "csparql", "sparqlstream"):
        with suppress(DialectError):
            to_dialect(query, other)
    return explain_text(query)


dialects = st.sampled_from([None, "rspql", "cqels", "csparql", "sparqlstream"])


@settings(max_examples=examples(500), suppress_health_check=[HealthCheck.too_slow])
@given(mutants(), dialects)
def test_a_mutated_case_parses_or_is_a_syntax_error(text: str, dialect: str | None) -> None:
    assert check_survives(text, dialect)


@settings(max_examples=examples(500), suppress_health_check=[HealthCheck.too_slow])
@given(
    soups | st.text(max_size=40) | st.tuples(soups, soups).map("SELECT * {0[0]} WHERE {{ {0[1]} }}".format), dialects
)
def test_a_soup_of_tokens_parses_or_is_a_syntax_error(text: str, dialect: str | None) -> None:
    assert check_survives(text, dialect)
