"""A static graph that changes while windows hold rows: what was made of it goes, what is made of the new one comes."""

import pytest
from pyoxigraph import NamedNode, Quad, Triple
from terms import rows_of, text_of

from freshkeeper import BudgetRule, Source
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.streams.batch import Batch
from freshkeeper.policies.registry import make

A, B, C, AT, DOOR, X, Y = (NamedNode(f"urn:{name}") for name in ("a", "b", "c", "at", "door", "x", "y"))
TEXT = """REGISTER {operator} <urn:out> AS SELECT ?who ?next FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT9S{step}]
{report} WHERE {{ WINDOW <urn:w> {{ ?who <urn:at> ?room }} ?room <urn:door> ?next }}"""


STEPS = pytest.mark.parametrize("steps", [False, True])


def told(
    operator: str, steps: bool, kind: EvaluatorKind = EvaluatorKind.NATIVE, rooms: str = "?room <urn:door> ?next"
) -> list[list[tuple[str, str]]]:
    """Answers of three evaluations; between the first and the second one a door is closed, and another one opened."""
    graphs = StaticGraphs(Dictionary(), {"": [Quad(A, DOOR, B), Quad(A, DOOR, X)]})
    step, report = (" STEP PT1S", "") if steps else ("", "REPORT ON_CONTENT_CHANGE")
    text = TEXT.format(operator=operator, step=step, report=report).replace("?room <urn:door> ?next", rooms)
    query = build(parse(text), graphs, evaluator=kind, dictionary=graphs.dictionary)
    assert isinstance(query, MovingQuery) is (kind is EvaluatorKind.NATIVE and not steps)
    found = []
    query.begin(1_000)
    for n, at in enumerate([1_000, 2_000, 3_000]):
        query.receive("urn:s", Batch([at], [Quad(*Triple([X, Y, Y][n], AT, [A, A, C][n]))]))
        if n == 1:
            graphs.change("", [Quad(A, DOOR, C), Quad(A, DOOR, X)])
        for result in query.advance(at + 1):
            found.append(sorted((text_of(who), text_of(to)) for who, to in rows_of(result)))
    return found


@STEPS
def test_what_is_there_now_is_made_of_the_new_graph(steps: bool) -> None:
    assert told("RSTREAM", steps) == [
        [("urn:x", "urn:b"), ("urn:x", "urn:x")],
        [("urn:x", "urn:c"), ("urn:x", "urn:x"), ("urn:y", "urn:c"), ("urn:y", "urn:x")],
        [("urn:x", "urn:c"), ("urn:x", "urn:x"), ("urn:y", "urn:c"), ("urn:y", "urn:x")],
    ]


@STEPS
def test_what_came_and_went_is_the_difference(steps: bool) -> None:
    assert told("ISTREAM", steps) == [
        [("urn:x", "urn:b"), ("urn:x", "urn:x")],
        [("urn:x", "urn:c"), ("urn:y", "urn:c"), ("urn:y", "urn:x")],
        [],
    ]
    assert told("DSTREAM", steps) == [[], [("urn:x", "urn:b")], []]


@STEPS
@pytest.mark.parametrize("operator", ["RSTREAM", "ISTREAM", "DSTREAM"])
@pytest.mark.parametrize(
    "rooms",
    [
        "?room <urn:door> ?next",
        "?room <urn:door>|<urn:door> ?next",
        "{ SELECT DISTINCT ?room ?next { ?room <urn:door> ?next FILTER(?next != <urn:x>) } }",
        "{ ?room <urn:door> ?next MINUS { ?room <urn:door> <urn:c> } }",
    ],
)
def test_a_sub_query_over_it_is_solved_anew_as_the_snapshot_evaluator_does(
    operator: str, steps: bool, rooms: str
) -> None:
    native = told(operator, steps, EvaluatorKind.NATIVE, rooms)
    assert native == told(operator, steps, EvaluatorKind.SNAPSHOT, rooms)
    assert any(native)


BLOG = "<urn:a> <urn:n> 1, 2 . <urn:c> <urn:n> 3 ."


def told_with_service(operator: str, kind: EvaluatorKind, budget: int) -> list[list[tuple[str, ...]]]:
    """The same with what a source knows of each room; how sure and how old every answer is beside it."""
    graphs = StaticGraphs(Dictionary(), {"": [Quad(A, DOOR, B), Quad(A, DOOR, X)]})
    text = TEXT.format(operator=operator, step=" STEP PT1S", report="").replace("?next FROM", "?next ?n FROM")
    text = text.removesuffix("}") + "SERVICE <urn:blog> { ?room <urn:n> ?n } }"
    sources = {"urn:blog": Source.embedded(BLOG, volatile=["urn:n"])}
    settings = MaintenanceSettings(lambda _: make("lru"), BudgetRule.of(budget))
    query = build(parse(text), graphs, 0, "", sources, settings, kind, graphs.dictionary)
    found = []
    query.begin(1_000)
    for n, at in enumerate([1_000, 2_000, 3_000, 4_000, 11_000]):
        query.receive("urn:s", Batch([at], [Quad(*Triple([X, Y, Y, X, Y][n], AT, [A, A, C, A, C][n]))]))
        if n in (1, 3):
            graphs.change("", [Quad(A, DOOR, [C, B][n // 3]), Quad(A, DOOR, X)])
        for result in query.advance(at + 1):
            fresh = [result.fresh(m) for m in range(len(result.answers))]
            pairs = zip(rows_of(result), fresh, strict=True)
            found.append(sorted((*map(str, row), f"{f.probability:.9f}", str(f.age)) for row, f in pairs))
    return found


@pytest.mark.parametrize("budget", [1, 9])
@pytest.mark.parametrize("operator", ["RSTREAM", "ISTREAM", "DSTREAM"])
def test_a_service_is_joined_with_what_the_new_graph_makes(operator: str, budget: int) -> None:
    native = told_with_service(operator, EvaluatorKind.NATIVE, budget)
    assert native == told_with_service(operator, EvaluatorKind.SNAPSHOT, budget)
    assert sum(map(len, native)) > 2
