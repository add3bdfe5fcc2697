"""At which instants a query is evaluated and over what, whatever its windows, its delay and the batches it comes in."""

import random
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Triple
from terms import rows_of, text_of

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import continuous_query, run
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.streams.batch import Elements

P = NamedNode("urn:p")
Given = Sequence[tuple[int, int]]
"""Elements of a stream: times, and names that are numbers"""


def answers(text: str, streams: dict[str, Given], delay: int = 0, size: int = 1_000) -> dict[int, list[int]]:
    """What every evaluation answers, sorted, the names of the elements in the window."""
    engine = Engine([build(parse(text))])
    for name, stream in streams.items():
        triples = [(t, Triple(NamedNode(f"urn:{name}"), P, Literal(number))) for t, number in stream]
        engine.listen(f"urn:{name}", Elements(triples, size), delay)
    return {r.t: sorted(int(text_of(row[0])) for row in rows_of(r)) for r in engine.run()}


def held(stream: Given, now: int, span: int, *, right_open: bool) -> list[int]:
    """The elements in (now − span, now], or in [now − span, now)."""
    return sorted(n for t, n in stream if (now - span <= t < now if right_open else now - span < t <= now))


times = st.lists(st.integers(1, 60), min_size=1, max_size=12).map(lambda found: list(enumerate(sorted(found))))


@given(times, st.integers(1, 25), st.one_of(st.none(), st.integers(1, 25)), st.booleans())
def test_every_window_over_time_is_evaluated_at_its_instants_and_no_others(
    numbered: list[tuple[int, int]], span: int, step: int | None, right_open: bool
) -> None:
    stream = [(t, n) for n, t in numbered]
    first, last = stream[0][0], stream[-1][0]
    instants = sorted({t + right_open for t, _ in stream})
    if step is not None:
        instants = [t for t in range(step, last + 1, step) if t >= first]
    closure = "CLOSURE RIGHT_OPEN" if right_open else ""
    extent = f"RANGE {span}ms {f'STEP {step}ms' if step else ''} {closure}"
    found = answers(
        f"SELECT ?n FROM NAMED WINDOW <urn:w> ON <urn:s> [{extent}] {{ WINDOW <urn:w> {{ ?x ?p ?n }} }}", {"s": stream}
    )
    assert found == {now: held(stream, now, span, right_open=right_open) for now in instants}


@pytest.mark.parametrize("written", ["NOW - 30 S", "NOW - 30 S TO NOW"])
def test_a_window_of_sparqlstream_without_slide_answers_one_element(written: str) -> None:
    text = f"SELECT ?n FROM NAMED STREAM <urn:s> [{written}] WHERE {{ ?s ?p ?n }}"
    assert answers(text, {"s": [(1000, 7)]}) == {1001: [7]}


EXTENTS = [
    *("RANGE 9ms STEP 4ms", "RANGE 4ms STEP 9ms", "RANGE 9ms STEP 4ms CLOSURE RIGHT_OPEN", "RANGE 9ms", "NOW", "ALL"),
    *("ELEMENTS 2 STEP 3", "ELEMENTS 3 STEP 1", "ELEMENTS 2", "FROM NOW-9ms TO NOW-4ms STEP 2ms"),
]
REPORTS = ["", "REPORT ON_CONTENT_CHANGE", "REPORT NON_EMPTY", "REPORT ON_CONTENT_CHANGE, NON_EMPTY"]
END = 1_000
"""More evaluations than 60 ms and the longest window make due."""


@given(
    times, times, st.lists(st.sampled_from(EXTENTS), min_size=2, max_size=2), st.sampled_from(REPORTS), st.booleans()
)
def test_every_run_ends_whatever_its_windows_and_however_its_streams_are_cut(
    one: list[tuple[int, int]], other: list[tuple[int, int]], extents: list[str], report: str, drain: bool
) -> None:
    windows = "".join(f" FROM NAMED WINDOW <urn:w{n}> ON <urn:s{n}> [{extent}]" for n, extent in enumerate(extents))
    text = f"SELECT ?n ?m {windows} {report} {{ WINDOW <urn:w0> {{ ?x ?p ?n }} WINDOW <urn:w1> {{ ?y ?p ?m }} }}"
    found = []
    for size in (1, 1_000):
        engine = Engine([build(parse(text))], drain)
        for n, stream in enumerate((one, other)):
            engine.listen(f"urn:s{n}", Elements([(t, Triple(P, P, Literal(k % 3))) for k, t in stream], size))
        results = islice(engine.run(), END)
        found.append([(r.t, sorted(map(str, r.answers))) for r in results])
    assert len(found[0]) < END
    assert found[0] == found[1]


TWO = (
    "SELECT ?n FROM NAMED WINDOW <urn:v> ON <urn:a> [RANGE 9ms STEP 4ms] FROM NAMED WINDOW <urn:w> ON <urn:b> "
    "[RANGE 7ms STEP 4ms] { { WINDOW <urn:v> { ?x ?p ?n } } UNION { WINDOW <urn:w> { ?x ?p ?n } } }"
)


@given(times, times, st.integers(0, 20), st.integers(1, 5), st.integers(0, 99))
def test_no_evaluation_depends_on_the_delay_or_on_the_batches_of_two_streams(
    one: list[tuple[int, int]], other: list[tuple[int, int]], delay: int, size: int, seed: int
) -> None:
    lots = random.Random(seed)
    ordered = {"a": [(t, n) for n, t in one], "b": [(t, 100 + n) for n, t in other]}
    shaken: dict[str, Sequence[tuple[int, int]]] = {
        name: sorted(stream, key=lambda e: e[0] + lots.uniform(0, delay)) for name, stream in ordered.items()
    }
    first, last = min(t for s in ordered.values() for t, _ in s), max(t for s in ordered.values() for t, _ in s)
    found = answers(TWO, shaken, delay, size)
    assert found == {
        now: held(ordered["a"], now, 9, right_open=False) + held(ordered["b"], now, 7, right_open=False)
        for now in range(4, last + 1, 4)
        if now >= first
    }


@pytest.mark.parametrize("time", [2**62, 2**63, 10**29])
def test_a_time_that_cannot_be_reckoned_with_is_an_error_with_or_without_a_service(time: int) -> None:
    service = "SERVICE <urn:b> { ?x <urn:f> ?f }"
    for body in ("", service):
        window = "FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 4s STEP 1s]"
        text = f"SELECT ?n {window} {{ WINDOW <urn:w> {{ ?x ?p ?n }} {body} }}"
        source = Source.embedded("<urn:s> <urn:f> 1 .", volatile=["urn:f"])
        element = Triple(NamedNode("urn:s"), P, Literal(1))
        with pytest.raises(InputError, match=f"an element is refused: {time} is no time"):
            list(run(continuous_query(text, {"urn:b": source}), {"urn:s": [(time, element)]}))
        (last,) = run(continuous_query(text, {"urn:b": source}), {"urn:s": [(10**15, element)]})
        assert (last.t, len(last.answers)) == (10**15, 1)


def test_the_timestamp_of_csparql_is_the_time_of_the_element() -> None:
    text = (
        "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#> "
        "SELECT (f:timestamp(?x, ?p, ?n) AS ?at) FROM STREAM <urn:s> [RANGE 2s STEP 1s] "
        "WHERE { ?x ?p ?n FILTER(f:timestamp(?x, ?p, ?n) > 500) }"
    )
    assert answers(text, {"s": [(400, 1), (900, 2), (1000, 3), (2000, 4)]}) == {1000: [900], 2000: [900, 1000]}


def test_a_function_that_a_source_in_this_process_does_not_know_is_its_failure() -> None:
    text = (
        "SELECT ?x FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 2s STEP 1s] { WINDOW <urn:w> { ?x ?p ?n } "
        "SERVICE <urn:b> { ?x <urn:f> ?f FILTER(<urn:unknown>(?f)) } }"
    )
    source = Source.embedded("<urn:s> <urn:f> 1 .", volatile=["urn:f"])
    (result,) = run(continuous_query(text, {"urn:b": source}), {"urn:s": [(1000, Triple(NamedNode("urn:s"), P, P))]})
    assert (len(result.answers), result.fresh(0).probability, result.errors) == (1, 0.0, 1)
