"""Pattern sets: what they take, what they find beside the snapshot engine, and queries that come and go."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Triple
from terms import rows_of, text_of

from freshkeeper import FreshkeeperError, PatternSet, continuous_query, parse_query, run
from freshkeeper.maintenance.base.errors import ConfigError, TimeError
from freshkeeper.maintenance.engine.automaton.matched_queries import MatchedQueries
from freshkeeper.maintenance.engine.columns import dictionary as dictionaries
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import columns_of
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.runtime.build import build_all
from freshkeeper.maintenance.streams.batch import Batch, Elements

NAMES = [NamedNode(f"urn:{name}") for name in "abc"]
ONES = [Literal(text, datatype=NamedNode("http://www.w3.org/2001/XMLSchema#integer")) for text in ("1", "01")]
VALUES = [*ONES, Literal("x", language="en")]
TRIPLES = st.builds(Triple, st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from([*NAMES, *VALUES]))
SUBJECTS = st.sampled_from(["?x", "?y", "?z", "<urn:a>", "<urn:b>"])
OBJECTS = st.sampled_from(["?x", "?y", "?z", "<urn:a>", "1", "01", '"x"@en'])
PATTERNS = st.lists(st.tuples(SUBJECTS, SUBJECTS, OBJECTS).map(" ".join), min_size=1, max_size=3).map(" . ".join)
EXTENTS = ("ELEMENTS 1", "ELEMENTS 3", "ELEMENTS 6", "RANGE PT0.003S", "RANGE PT0.006S", "NOW")
WINDOWS = st.sampled_from([f"[{extent}]" for extent in EXTENTS])
EDGE = "?x <urn:a> ?y"
STREAMS = st.lists(st.tuples(st.integers(0, 3), TRIPLES), max_size=14)


def rspql(window: str, patterns: str, shown: str = "*") -> str:
    """A query over this window."""
    head = f"REGISTER ISTREAM <urn:out> AS SELECT {shown} FROM NAMED WINDOW <urn:w> ON <urn:s> {window}"
    return f"{head} {{ WINDOW <urn:w> {{ {patterns} }} }}"


def last(count: int, patterns: str, shown: str = "*") -> str:
    """A query over the last few triples."""
    return rspql(f"[ELEMENTS {count}]", patterns, shown)


def elements(drawn: list[tuple[int, Triple]]) -> list[tuple[int, Triple]]:
    """A stream whose times have the drawn gaps."""
    return list(zip(np.cumsum([gap for gap, _ in drawn]).tolist(), [triple for _, triple in drawn], strict=True))


def told(results: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Results that have answers, the answers as bags."""
    return [(r.t, r.variables, r.windows, Counter(r.answers)) for r in results if len(r.answers)]


@given(WINDOWS, PATTERNS, STREAMS)
def test_it_answers_as_the_snapshot_engine_does(window: str, patterns: str, drawn: list[tuple[int, Triple]]) -> None:
    text, stream = rspql(window, patterns), elements(drawn)
    found = PatternSet.of({"q": text})
    answers = [*found.feed(stream).results(), *found.advance().results()]
    assert told(answers) == told(run(continuous_query(text), {"urn:s": stream}))
    assert {answer.query for answer in answers} <= {"q"}


@given(st.lists(st.tuples(WINDOWS, PATTERNS), min_size=1, max_size=6), STREAMS, st.lists(st.integers(1, 4), max_size=8))
def test_many_queries_answer_as_each_does_alone_whatever_the_batches(
    queries: list[tuple[str, str]], drawn: list[tuple[int, Triple]], sizes: list[int]
) -> None:
    stream, at = elements(drawn), 0
    together: list[Any] = []
    patterns = PatternSet.of({f"q{n}": rspql(*query) for n, query in enumerate(queries)})
    for size in [*sizes, len(stream)]:
        together += patterns.feed(stream[at : at + size]).results()
        at += size
    together += patterns.advance().results()
    for n, query in enumerate(queries):
        alone = PatternSet.of({f"q{n}": rspql(*query)})
        own = [*alone.feed(stream).results(), *alone.advance().results()]
        assert told(own) == told(result for result in together if result.query == f"q{n}")


@given(st.lists(st.tuples(WINDOWS, PATTERNS, st.sampled_from("st")), min_size=2, max_size=5), STREAMS, STREAMS)
def test_a_run_matches_them_together_and_answers_as_snapshots_of_each(
    queries: list[tuple[str, str, str]], one: list[tuple[int, Triple]], other: list[tuple[int, Triple]]
) -> None:
    texts = [rspql(window, patterns).replace("urn:s>", f"urn:{stream}>") for window, patterns, stream in queries]
    streams = {"urn:s": elements(one), "urn:t": elements(other)}
    registrations = [RegisteredQuery(parse_query(text), f"q{n}") for n, text in enumerate(texts)]
    built = build_all(registrations, failed=lambda one, error: pytest.fail(f"{one.name}: {error}"), quiet=True)
    assert [type(query) for query in built] == [MatchedQueries]
    together = list(run(built, streams))
    order = [(result.t, int(result.query[1:])) for result in together]
    assert order == sorted(order)
    for n, text in enumerate(texts):
        own = [result for result in together if result.query == f"q{n}"]
        assert told(own) == told(run(continuous_query(text), streams))


def test_the_order_is_that_of_time_and_then_of_registration() -> None:
    text = last(2, "?x <urn:p> ?y")
    patterns = PatternSet.of({"b": text, "a": last(2, "?u <urn:p> ?v"), "c": last(3, "?x ?y ?z")})
    node = NamedNode("urn:p")
    found = patterns.feed([(1, Triple(node, node, node)), (2, Triple(NAMES[0], node, node))])
    assert [(r.t, r.query, r.variables) for r in found.results()] == [
        (1, "b", ("x", "y")), (1, "a", ("u", "v")), (1, "c", ("x", "y", "z")),
        (2, "b", ("x", "y")), (2, "a", ("u", "v")), (2, "c", ("x", "y", "z")),
    ]  # fmt: skip
    assert len(found) == 6
    assert found.counts() == {"a": 2, "b": 2, "c": 2}


def test_columns_quads_and_pairs_are_elements_alike() -> None:
    node, text = NAMES[0], last(2, "?x <urn:a> ?y")
    stream = [(1, Triple(node, node, node)), (2, Triple(NAMES[1], node, node))]
    answers = []
    for kind in ("pairs", "batch", "columns"):
        patterns = PatternSet.of({"q": text})
        batch = next(Elements(stream).batches())
        kinds: dict[str, Any] = {"pairs": stream, "batch": batch, "columns": columns_of(batch, patterns.dictionary)}
        given = kinds[kind]
        answers.append(told(patterns.feed(given).results()))
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 2


def test_a_dictionary_that_is_given_is_used_though_it_is_empty() -> None:
    shared = Dictionary()
    assert PatternSet.of({"q": last(3, EDGE)}, shared).dictionary is shared
    assert len(shared) == 1


def test_explicit_variables_come_in_their_order() -> None:
    patterns = PatternSet.of({"q": last(2, "?x <urn:a> ?y", "?y ?x")})
    (result,) = patterns.feed([(1, Triple(NAMES[0], NAMES[0], NAMES[1]))]).results()
    assert (result.variables, result.answers) == (("y", "x"), [(NAMES[1], NAMES[0])])


def test_a_query_that_comes_later_knows_what_the_window_holds() -> None:
    a, b, c = NAMES
    patterns = PatternSet.of({"first": last(10, EDGE)})
    patterns.feed([(1, Triple(a, a, b)), (2, Triple(b, b, c))])
    patterns.register("second", last(10, "?x <urn:a> ?y . ?y <urn:b> ?z . ?z <urn:c> ?u"))
    assert patterns.feed([(3, Triple(a, a, b))]).counts() == {}
    assert patterns.feed([(4, Triple(c, c, a))]).counts() == {"second": 1}
    patterns.remove("first")
    assert patterns.names == ("second",)
    assert patterns.feed([(5, Triple(c, a, a)), (6, Triple(c, c, b))]).counts() == {"second": 1}


def test_numbers_of_forms_are_used_again_and_nothing_is_mixed_up() -> None:
    a, b, _ = NAMES
    patterns = PatternSet.of({"p": last(10, EDGE), "q": last(10, "?x <urn:b> ?y")})
    before = patterns.feed([(1, Triple(a, a, b))])
    patterns.remove("p")
    patterns.register("r", last(10, "?x ?x ?y"))
    assert patterns.feed([(2, Triple(b, b, b))]).counts() == {"q": 1, "r": 1}
    assert before.counts() == {"p": 1}


def test_a_query_with_endless_solutions_is_cut_and_said() -> None:
    a = NAMES[0]
    cross = last(100, "?x <urn:a> ?y . ?z <urn:a> ?u . ?v <urn:a> ?w")
    patterns = PatternSet.of({"cross": cross, "also": cross, "plain": last(100, EDGE)}, most=50)
    found = patterns.feed([(n, Triple(NamedNode(f"urn:{n}"), a, a)) for n in range(10)])
    assert found.counts() == {"cross": 64, "also": 64, "plain": 10}  # 1 + 7 + 19 + 37, and then 61 are too many
    assert patterns.cut == ["cross", "also"]
    assert patterns.names == ("plain",)
    assert patterns.feed([(20, Triple(a, a, a))]).counts() == {"plain": 1}


def test_ids_are_kept_as_long_as_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window's triples, the patterns' constants, what waits and what was found survive sweeps; the rest goes."""
    monkeypatch.setattr(dictionaries, "SWEEP_FROM_SPELLINGS", 10)
    a = NAMES[0]
    patterns = PatternSet.of({
        "count": last(3, "?x <urn:a> ?y . ?z <urn:a> ?x"),
        "time": rspql("[RANGE PT0.003S]", "?x <urn:a> ?y . ?z <urn:a> ?x"),
        "never": last(3, "?x <urn:zzz> ?y"),
    })  # fmt: skip
    kept = []
    for n in range(300):
        kept.append((n, patterns.feed([(n, Triple(NamedNode(f"urn:{n}"), a, NamedNode(f"urn:{n + 1}")))])))
        kept = kept[-5:]
        patterns.dictionary.sweep()
    assert patterns.dictionary.sweeps > 5
    assert patterns.dictionary.width < 60
    for n, found in kept:
        rows = [(r.query, r.t, *(text_of(term) for term in row)) for r in found.results() for row in rows_of(r)]
        assert ("count", n, f"urn:{n}", f"urn:{n + 1}", f"urn:{n - 1}") in rows
        assert ("time", n - 1, f"urn:{n - 1}", f"urn:{n}", f"urn:{n - 2}") in rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (last(3, EDGE).replace("ISTREAM", "RSTREAM"), "operator is RSTREAM"),
        (rspql("[ELEMENTS 3 STEP 2]", "?x <urn:a> ?y"), "window has a step"),
        (rspql("[RANGE PT3S STEP PT1S]", "?x <urn:a> ?y"), "window has a step"),
        (rspql("[ALL]", "?x <urn:a> ?y"), "keeps everything"),
        (rspql("[RANGE PT3S CLOSURE RIGHT_OPEN]", "?x <urn:a> ?y"), "ends before"),
        (rspql("[RANGE PT3S]", "?x <urn:a> ?y FILTER(?y > 3)"), "FILTER(?y > 3) is not a single triple pattern"),
        (rspql("[RANGE PT3S]", "?x <urn:a>/<urn:b> ?y"), "is not a single triple pattern"),
        (rspql("[RANGE PT3S]", "?x <urn:a> [] "), "is not a single triple pattern"),
        (rspql("[RANGE PT3S]", "?x <urn:a> _:b"), "has a blank node"),
        (rspql("[RANGE PT3S]", "OPTIONAL { ?x <urn:a> ?y }"), "is not a single triple pattern"),
        (rspql("[RANGE PT3S]", EDGE, "?x"), "does not select all"),
        (rspql("[RANGE PT3S]", EDGE, "?x ?y (?y AS ?z)"), "does not select all"),
        (rspql("[RANGE PT3S]", EDGE) + " LIMIT 3", "LIMIT follows"),
        (rspql("[RANGE PT3S]", ""), "0 triple patterns"),
        (rspql("[RANGE PT3S]", " . ".join(f"?x <urn:{n}> ?y" for n in range(17))), "17 triple patterns"),
        (last(3, EDGE).replace("FROM NAMED", "FROM").replace("WINDOW <urn:w> {", "{"), "is merged"),
        (last(3, EDGE).replace("} }", "} ?x <urn:b> ?z }"), "?x <urn:b> ?z is not a WINDOW block"),
        ("SELECT * { ?x ?y ?z }", "0 windows"),
        (rspql("[RANGE PT3S]", EDGE).replace("SELECT *", "ASK"), "form is ASK"),
    ],
)  # fmt: skip
def test_other_queries_are_refused_with_the_reason(text: str, reason: str) -> None:
    assert reason in str(PatternSet.refusal(parse_query(text)))
    with pytest.raises(ConfigError, match="other: the query is not a conjunction"):
        PatternSet.of({"fine": last(3, EDGE), "other": text})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { STREAM <urn:s> [TRIPLES 3] { ?x <urn:a> ?y ; <urn:b> 1, 2 . ?x ?x ?x } }",
        "SELECT DISTINCT ?y ?x { STREAM <urn:s> [RANGE 3s] { ?x <urn:a> ?y } }",
        rspql("[ELEMENTS 3 STEP 1]", "<urn:a> <urn:a> <urn:a>"),
        rspql("[NOW]", "?x a ?y } WINDOW <urn:w> { ?y a ?z"),
    ],
)
def test_these_are_taken(text: str) -> None:
    assert PatternSet.refusal(parse_query(text)) is None


def test_nothing_is_half_registered() -> None:
    patterns = PatternSet()
    with pytest.raises(FreshkeeperError):
        patterns.register_all({"fine": last(3, EDGE), "other": rspql("[ALL]", "?x <urn:a> ?y")})
    assert patterns.names == ()


def test_mistakes_are_told() -> None:
    query, a = last(3, EDGE), NAMES[0]
    patterns = PatternSet.of({"q": query})
    with pytest.raises(ConfigError, match="already a query 'q'"):
        patterns.register("q", query)
    with pytest.raises(ConfigError, match="no query 'p': there are: q"):
        patterns.remove("p")
    with pytest.raises(ConfigError, match="no query reads the stream <urn:t>"):
        patterns.feed([(1, Triple(a, a, a))], "urn:t")
    patterns.feed([(5, Triple(a, a, a))])
    with pytest.raises(TimeError, match="has time 4, before 5"):
        patterns.feed([(4, Triple(a, a, a))])
    with pytest.raises(TimeError, match="not in time order"):
        patterns.feed([(7, Triple(a, a, a)), (6, Triple(a, a, a))])
    patterns.advance()
    with pytest.raises(TimeError, match="before 6"):
        patterns.feed([(5, Triple(a, a, a))])
    patterns.register("two", query.replace("urn:s", "urn:t"))
    with pytest.raises(ConfigError, match="read 2 streams; name"):
        patterns.feed([(8, Triple(a, a, a))])
    with pytest.raises(ConfigError, match="no query is registered"):
        PatternSet().feed([(8, Triple(a, a, a))])
    assert len(patterns.feed(Batch([], []), "urn:s")) == 0


def test_two_streams_have_windows_of_their_own() -> None:
    a, b, _ = NAMES
    query = rspql("[RANGE PT1S]", "?x <urn:a> ?y . ?y <urn:a> ?z")
    patterns = PatternSet.of({"s": query, "t": query.replace("urn:s", "urn:t")})
    patterns.feed([(1, Triple(a, a, b))], "urn:s")
    patterns.feed([(1, Triple(b, a, a)), (2, Triple(a, a, b))], "urn:t")
    assert patterns.advance(2).counts() == {}
    assert patterns.advance().counts() == {"t": 2}
