"""A static graph that changes while windows hold rows: what was made of it goes, what is made of the new one comes."""

import pytest
from pyoxigraph import NamedNode, Quad, Triple

from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.evaluator_kind import EvaluatorKind
from freshkeeper.maintenance.native.moving_query import MovingQuery
from freshkeeper.maintenance.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.run.build import build
from freshkeeper.maintenance.streams.batch import Batch

A, B, C, AT, DOOR, X, Y = (NamedNode(f"urn:{name}") for name in ("a", "b", "c", "at", "door", "x", "y"))
TEXT = """REGISTER {operator} <urn:out> AS SELECT ?who ?next FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT9S{step}]
{report} WHERE {{ WINDOW <urn:w> {{ ?who <urn:at> ?room }} ?room <urn:door> ?next }}"""


STEPS = pytest.mark.parametrize("steps", [False, True])


def told(operator: str, steps: bool) -> list[list[tuple[str, str]]]:
    """Answers of three evaluations; between the first and the second one a door is closed, and another one opened."""
    graphs = StaticGraphs(Dictionary(), {"": [Quad(A, DOOR, B), Quad(A, DOOR, X)]})
    step, report = (" STEP PT1S", "") if steps else ("", "REPORT ON_CONTENT_CHANGE")
    text = TEXT.format(operator=operator, step=step, report=report)
    query = build(parse(text), graphs, evaluator=EvaluatorKind.NATIVE, dictionary=graphs.dictionary)
    assert isinstance(query, MovingQuery) is not steps
    found = []
    query.begin(1_000)
    for n, at in enumerate([1_000, 2_000, 3_000]):
        query.receive("urn:s", Batch([at], [Quad(*Triple([X, Y, Y][n], AT, [A, A, C][n]))]))
        if n == 1:
            graphs.change("", [Quad(A, DOOR, C), Quad(A, DOOR, X)])
        for result in query.advance(at + 1):
            found.append(sorted((who.value, to.value) for who, to in result.answers))
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
