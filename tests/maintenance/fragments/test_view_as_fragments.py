"""What views hold, served as fragments: what it says is what the view has, and it can be followed and asked."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fragment_sites import reader_of
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple
from terms import text_of

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.evaluation import Evaluation
from freshkeeper.maintenance.fragments.annotated_query import AnnotatedQuery
from freshkeeper.maintenance.fragments.annotated_source import AnnotatedSource
from freshkeeper.maintenance.fragments.annotation_style import Speaking, Style, Timing, read_elements
from freshkeeper.maintenance.fragments.fragment_server import FragmentServer
from freshkeeper.maintenance.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.fragments.serving_thread import ServingThread
from freshkeeper.maintenance.fragments.view_fragments import FRESHNESS, ViewFragments, holds_until
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.rsp.engine import run
from freshkeeper.maintenance.rsp.r2s import Result
from freshkeeper.maintenance.run.build import build
from freshkeeper.maintenance.service.sources import Source
from freshkeeper.maintenance.service_join.maintenance_settings import MaintenanceSettings, PolicyName
from freshkeeper.maintenance.streams.batch import Elements

E = "http://e/"
BLOG = f"PREFIX : <{E}> :jazz :by :ann, :bob . :rock :by :bob . :ann :n 10 . :bob :n 20 . :cyd :n 30 ."
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT3S STEP PT1S]
{{ WINDOW :w {{ ?post :about ?topic }} SERVICE :x {{ ?topic :by ?user . ?user :n ?n PATTERN }} }}"""
NOW = 1_000_000_000_000


def posts() -> Elements:
    about = NamedNode(f"{E}about")
    topics = ["jazz", "rock", "jazz", "jazz", "rock"] * 2
    return Elements(
        [(NOW + 1000 * n, Triple(NamedNode(f"{E}p{n}"), about, NamedNode(E + t))) for n, t in enumerate(topics)]
    )


GRAPHS = Style()


def served(
    style: Style = GRAPHS, more: str = "", changes: Sequence[tuple[int, Quad]] = (), **settings: Any
) -> Iterator[tuple[ViewFragments, Result]]:
    """A run with its views served, stopped after each of its evaluations."""
    fragments, clock = ViewFragments(style, "http://here/data"), [NOW]
    fragments.wall = lambda: clock[0] / 1000

    def observe(name: str, manager: Manager, evaluation: Evaluation) -> None:
        clock[0] = evaluation.record.t_ms
        fragments.observe(name, manager, evaluation)

    own = MaintenanceSettings(PolicyName("lru"), BudgetRule.of(5), observe=observe, **settings)
    source = Source.embedded(BLOG, [f"{E}n"], changes)
    query = build(parse(QUERY.replace("PATTERN", more)), sources={f"{E}x": source}, settings=own)
    for result in run(query, {f"{E}s": posts()}):
        yield fragments, result


def whole(fragments: ViewFragments) -> list[Quad]:
    server = FragmentServer(fragments, lambda: int(fragments.wall() * 1000), "/data", per_page=7)
    return reader_of(server).whole(QuadPattern())


@pytest.mark.parametrize("style", [GRAPHS, Style(Speaking.STAR, Timing.INTERVAL), Style(Speaking.IMPLICIT)], ids=str)
def test_triples_of_solutions_are_served_with_the_time_for_which_they_are_believed(style: Style) -> None:
    for fragments, result in served(style):
        quads = [quad for quad in whole(fragments) if quad.predicate != FRESHNESS]
        read = read_elements(quads, style, fragments._address)
        shown = {(row["user"], row["n"]) for row, _ in result.solutions() if "n" in row}
        assert shown <= {(one.triple.subject, one.triple.object) for one in read.held}
        assert {quad.predicate.value for quad in read.plain} <= {f"{E}by"}
        assert all(one.until > result.t for one in read.held)
        assert not read.odd


def test_what_the_view_believes_is_said_and_grows_with_what_it_learns() -> None:
    changes = [(NOW + 1000 * n, Quad(NamedNode(f"{E}bob"), NamedNode(f"{E}n"), Literal(n))) for n in range(12)]
    for fragments, _ in served(changes=changes):
        fragments.sure = 0.5
    said = {quad.subject: float(text_of(quad.object)) for quad in whole(fragments) if quad.predicate == FRESHNESS}
    assert said
    assert all(0 <= fresh <= 1 for fresh in said.values())
    marks: dict[object, str] = {
        quad.graph_name: text_of(quad.subject) for quad in whole(fragments) if quad.graph_name != DefaultGraph()
    }
    ends = {
        marks[quad.subject]: text_of(quad.object)
        for quad in whole(fragments)
        if quad.predicate.value.endswith("expiration")
    }
    assert ends[f"{E}bob"] < ends[f"{E}ann"], "bob has changed at every look, ann never"


def test_a_copy_is_said_to_hold_as_long_as_it_is_sure_enough_and_until_the_next_evaluation() -> None:
    kept = np.array([[1, 1, 0, 0], [1, 0.95, 0.91, 0.5], [0.2, 0.1, 0, 0], [1, 1, 1, 1]])
    found = holds_until(kept, 0.9, np.array([0, 1_000, 2_000, 3_000]), least=1_000)
    assert found.tolist() == [1_000, 2_000, 1_000, 3_000]


def test_what_solutions_do_not_tell_is_left_out() -> None:
    more = "OPTIONAL { ?user :n ?m } FILTER NOT EXISTS { ?user :blocked ?topic }"
    fragments, _ = list(served(more=more))[-1]
    found = {quad.predicate.value for quad in whole(fragments)}
    assert f"{E}by" in found
    assert f"{E}blocked" not in found


def test_every_evaluation_is_another_version_and_none_may_be_kept() -> None:
    versions = []
    for fragments, _ in served():
        versions.append(fragments.version(0))
        answer = FragmentServer(fragments, lambda: NOW, "/data").answer("GET", "/data", {"host": "h"})
        assert answer.headers["Cache-Control"] == "no-cache"
    assert all(a < b for a, b in pairwise(versions))


def test_a_view_is_followed_over_http() -> None:
    fragments, _ = list(served())[-1]
    site = ServingThread.of(fragments, "127.0.0.1", 0, fragments.wall)
    client = FragmentsOverHttp(site.address, wall=fragments.wall)
    try:
        query = AnnotatedQuery([AnnotatedSource(client)], f"SELECT * {{ ?t <{E}by> ?u . ?u <{E}n> ?n }}")
        moment = query.evaluate(query.parts())
    finally:
        client.close()
        site.close()
    rows = {(text_of(row["t"]), text_of(row["u"]), text_of(row["n"])) for row in moment.rows}
    assert rows == {(f"{E}jazz", f"{E}ann", "10"), (f"{E}jazz", f"{E}bob", "20"), (f"{E}rock", f"{E}bob", "20")}
