"""What a columnar engine gets wrong first, worked by hand, and the same on both evaluators.

Memory over endless new terms is in test_memory.py.
"""

from collections.abc import Sequence

import pytest
from evaluators import results, said, swept
from pyoxigraph import Literal, NamedNode, Triple
from queries import World
from terms import in_default_graph

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.explain_plan import explain_plan
from freshkeeper.maintenance.query.parser import parse

XSD = "http://www.w3.org/2001/XMLSchema#"
P, Q = NamedNode("urn:p"), NamedNode("urn:q")
W = "FROM NAMED WINDOW <urn:w> ON <urn:s>"
JOIN = "SELECT ?topic ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]"
SERVICE = "SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n }"


def node(name: str) -> NamedNode:
    """A name."""
    return NamedNode(f"urn:{name}")


def values(text: str, stream: Sequence[tuple[int, Triple]], *static: Triple) -> list[tuple[int, list[str]]]:
    """When it answers and what, sorted; natively, and by the snapshot evaluator just so."""
    graphs = {"": [in_default_graph(triple) for triple in static]}
    found = results(text, "native", {"urn:s": stream}, graphs)
    assert said(found) == said(results(text, "snapshot", {"urn:s": stream}, graphs))
    return [
        (one.t, sorted(" ".join(term.value for term in row) for row in one.answers))  # type: ignore[union-attr]
        for one in found
    ]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("RSTREAM", [(1000, ["urn:x"]), (2000, ["urn:x"]), (3000, ["urn:x", "urn:x"]), (4000, ["urn:x"])]),
        ("ISTREAM", [(1000, ["urn:x"]), (2000, []), (3000, ["urn:x"]), (4000, [])]),
        ("DSTREAM", [(1000, []), (2000, []), (3000, []), (4000, ["urn:x"])]),
    ],
)
def test_r2s_compares_projected_bags_not_the_solutions_that_came_and_went(operator: str, expected: object) -> None:
    text = f"REGISTER {operator} <urn:o> AS SELECT ?x {W} [RANGE PT1S STEP PT1S] {{ WINDOW <urn:w> {{ ?x ?p ?y }} }}"
    stream = [(t, Triple(node("x"), P, node(name))) for t, name in [(1000, "a"), (2000, "b"), (3000, "c"), (3000, "d")]]
    assert values(text, [*stream, (4000, Triple(node("x"), P, node("e")))]) == expected


def test_an_element_that_returns_while_it_is_held_renews_its_solutions_and_doubles_none() -> None:
    text = f"SELECT ?x {W} [RANGE PT2S STEP PT1S] {{ WINDOW <urn:w> {{ ?x <urn:p> ?y }} }}"
    again, other = Triple(node("x"), P, node("y")), Triple(node("z"), Q, node("z"))
    assert values(text, [(1000, again), (2000, again), (5000, other)]) == [
        (1000, ["urn:x"]), (2000, ["urn:x"]), (3000, ["urn:x"]), (4000, []), (5000, []),
    ]  # fmt: skip


def test_a_time_window_takes_an_instant_whole_and_a_count_window_steps_inside_it() -> None:
    stream = [(1000, Triple(node(name), P, node("o"))) for name in "abc"]
    timed = f"SELECT ?x {W} [RANGE PT1S STEP PT1S] {{ WINDOW <urn:w> {{ ?x ?p ?y }} }}"
    counted = f"SELECT ?x {W} [ELEMENTS 2 STEP 1] {{ WINDOW <urn:w> {{ ?x ?p ?y }} }}"
    assert values(timed, stream) == [(1000, ["urn:a", "urn:b", "urn:c"])]
    assert values(counted, stream) == [(1000, ["urn:a"]), (1000, ["urn:a", "urn:b"]), (1000, ["urn:b", "urn:c"])]


def test_a_static_graph_is_a_set() -> None:
    text = f"SELECT ?x ?z {W} [RANGE PT1S STEP PT1S] {{ WINDOW <urn:w> {{ ?x ?p ?y }} ?y <urn:q> ?z }}"
    once = Triple(node("y"), Q, Literal(1))
    spelt = Triple(node("y"), Q, Literal("01", datatype=NamedNode(f"{XSD}integer")))
    assert values(text, [(1000, Triple(node("x"), P, node("y")))], once, once, spelt) == [(1000, ["urn:x 1"])]


def test_values_that_are_spelt_differently_are_what_the_store_says_they_are() -> None:
    text = f"SELECT ?x ?z {W} [RANGE PT1S STEP PT1S] {{ WINDOW <urn:w> {{ ?x <urn:p> ?y }} ?z <urn:q> ?y }}"
    elements = [Literal("01", datatype=NamedNode(f"{XSD}integer")), Literal("x", language="EN"), Literal("1")]
    static = [Literal(1), Literal("x", language="en"), Literal("+1", datatype=NamedNode(f"{XSD}integer"))]
    found = values(
        text,
        [(1000, Triple(node(f"x{n}"), P, each)) for n, each in enumerate(elements)],
        *(Triple(node(f"z{n}"), Q, each) for n, each in enumerate(static)),
    )
    assert found == [(1000, ["urn:x0 urn:z0", "urn:x0 urn:z2", "urn:x1 urn:z1"])]


def blog(text: str, **options: object) -> World:
    """The blog's answers, and the same without the native evaluator."""
    found = World(text, **options)
    assert said(found.results) == said(World(text, evaluator="snapshot", **options).results)
    return found


def test_a_copy_that_is_refreshed_changes_value_and_freshness_of_solutions_that_stay() -> None:
    world = blog(f"{JOIN} {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}", budget=1)
    jazz = {t: [each for each in answers if each.startswith("jazz")] for t, answers in world.answers.items()}
    assert jazz[2000] == ["jazz ann 10", "jazz bob 21"]  # bob's copy was refreshed, as rock needs it too
    assert jazz[3000] == ["jazz ann 11", "jazz ann 11", "jazz bob 21", "jazz bob 21"]
    second = next(result for result in world.results if result.t == 2000)
    ages = {written: second.fresh(n).age for n, written in enumerate(world.written(second))}
    assert ages == {"jazz ann 10": 1000, "jazz bob 21": 0, "rock bob 21": 0, "rock cyd 30": 0}
    whole = blog(f"{JOIN} {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}")
    assert whole.answers[1000] == ["jazz ann 10", "jazz bob 20"]
    assert whole.answers[2000] == ["jazz ann 10", "jazz bob 21", "rock bob 21", "rock cyd 30"]
    assert whole.answers[3000].count("jazz bob 22") == 2
    assert set(whole.fresh(3000).values()) == {(1.0, 0)}


def test_edges_that_come_late_answer_for_mappings_that_are_in_the_window_already() -> None:
    world = blog(f"{JOIN} {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}", failing=(1000, 2000))
    assert world.answers[1000] == world.answers[2000] == []
    assert world.answers[3000] == [
        "jazz ann 11",
        "jazz ann 11",
        "jazz bob 22",
        "jazz bob 22",
        "rock bob 22",
        "rock cyd 30",
    ]


@pytest.mark.parametrize("budget", [0.5, 1, 2, 100])
def test_ids_that_are_freed_and_given_to_others_change_no_answer(
    budget: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    posts = [(500 * n, f":p{n} :topic :{['jazz', 'rock', 'folk', 'none'][n % 4]}{n % 3 or ''}") for n in range(40)]
    expected = World(f"{JOIN} {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}", posts=posts, budget=budget)
    freed = []
    monkeypatch.setattr(Dictionary, "sweep", lambda ids: freed.append(swept(ids)))
    blog(f"{JOIN} {{ WINDOW :w {{ ?post :topic ?topic }} {SERVICE} }}", posts=posts, budget=budget)
    assert any(freed)
    assert any(expected.answers.values())


@pytest.mark.parametrize(
    "body",
    [
        f"OPTIONAL {{ {SERVICE} }}",
        f"{SERVICE} MINUS {{ SERVICE :blog {{ ?topic :discussedBy :bob }} }}",
        f"{{ SELECT ?topic ?user ?n {{ {SERVICE} }} ORDER BY ?n LIMIT 2 }}",
    ],
)
def test_what_looks_at_a_service_from_outside_is_told_to_be_left_to_the_snapshot_evaluator(body: str) -> None:
    text = f"{JOIN} {{ WINDOW :w {{ ?post :topic ?topic }} {body} }}"
    plan = explain_plan(parse(f"PREFIX : <http://e/> {text}"))
    assert plan["kind"] == "snapshot"
    assert plan["reason"]
