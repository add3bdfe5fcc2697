"""What runs a query, said as data and as text."""

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.explain_plan import explain_plan, plan_lines
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build

HEAD = """PREFIX : <urn:>
SELECT ?post ?n
FROM NAMED WINDOW :posts ON :stream [RANGE PT4S STEP PT1S]
FROM NAMED WINDOW :likes ON :stream [RANGE PT10S STEP PT1S]
FROM NAMED :g
WHERE { WINDOW :posts { ?post :topic ?topic } WINDOW :likes { ?who :likes ?post }
"""
NATIVE = HEAD + "  GRAPH :g { ?topic :rank ?n } FILTER(?n > ?who) }"
LEFT = HEAD + "  OPTIONAL { WINDOW :likes { ?who :likes ?more } } GRAPH :g { ?topic :rank ?n } }"


def test_a_native_plan_says_its_inputs_by_what_they_are_asked_and_what_is_kept() -> None:
    plan = explain_plan(parse(NATIVE))
    assert plan == {
        "kind": "native",
        "inputs": [
            {
                "window": "urn:posts",
                "pattern": ["?post", "<urn:topic>", "?topic"],
                "indexes": [["subject", "predicate"]],
            },
            {"window": "urn:likes", "pattern": ["?who", "<urn:likes>", "?post"], "indexes": [["predicate", "object"]]},
            {"static": "GRAPH :g { ?topic :rank ?n }", "variables": ["n", "topic"], "indexes": [["?topic"]]},
        ],
        "expressions": ["FILTER(?n > ?who)"],
        "services": [],
        "kept": ["post", "n"],
        "groups": None,
    }
    assert (
        "\n".join(plan_lines(plan))
        == """\
EVALUATOR  native: every arrival is joined once, at each step with the input that has the fewest matches
     1  window <urn:posts>  ?post <urn:topic> ?topic
        probed by subject + predicate
     2  window <urn:likes>  ?who <urn:likes> ?post
        probed by predicate + object
     3  static, solved once: ?n ?topic
        GRAPH :g { ?topic :rank ?n }
        probed by ?topic
     then FILTER(?n > ?who)
     kept of every solution: ?post ?n"""
    )


@pytest.mark.parametrize("block", ["GRAPH :g { ?topic :rank ?n }", "GRAPH :g { ?topic (:rank|:rated) ?n }"])
def test_of_graphs_that_are_there_it_is_told_how_much_is_kept(block: str) -> None:
    rank = NamedNode("urn:rank")
    ranks = [Quad(NamedNode(f"urn:t{n}"), rank, Literal(n)) for n in range(1200)]
    graphs = StaticGraphs(Dictionary(), {"urn:g": ranks})
    plan = explain_plan(parse(f"{HEAD} {block} }}"), graphs)
    assert "     3  static, solved once: ?n ?topic, 1,200 solutions" in plan_lines(plan)
    assert "     3  static, solved once: ?n ?topic" in plan_lines(explain_plan(parse(f"{HEAD} {block} }}"), ["urn:g"]))


@pytest.mark.parametrize(
    ("head", "tail", "said"),
    [
        (
            "SELECT ?topic (COUNT(*) AS ?k) (SUM(DISTINCT ?post) AS ?n)",
            "GROUP BY ?topic",
            "grouped by ?topic: COUNT(*) AS ?k, SUM(DISTINCT ?post) AS ?n",
        ),
        ("SELECT (MAX(?post) AS ?last)", "", "grouped by nothing: MAX(?post) AS ?last"),
        ("SELECT ?topic", "GROUP BY ?topic", "grouped by ?topic: one row"),
    ],
)
def test_aggregates_are_told(head: str, tail: str, said: str) -> None:
    window = "FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT4S STEP PT1S]"
    query = parse(f"{head} {window} {{ WINDOW <urn:w> {{ ?post <urn:topic> ?topic }} }} {tail}")
    assert list(plan_lines(explain_plan(query)))[-1].strip() == said


def test_where_there_is_no_plan_the_reason_and_the_place_of_what_is_to_blame_are_told() -> None:
    plan = explain_plan(parse(LEFT))
    assert (plan["kind"], plan["line"], plan["column"]) == ("snapshot", 7, 3)
    because = list(plan_lines(plan))[1].strip()
    assert because.startswith("because line 7, column 3: OPTIONAL { WINDOW :likes { ?who :likes ?more } } is more than")


@pytest.mark.parametrize(
    ("head", "tail", "place", "says"),
    [
        ("SELECT ?s", "ORDER BY ?s", (2, 44), "ORDER is not supported"),
        ("SELECT ?s", "LIMIT 5", (2, 44), "LIMIT is not supported"),
        ("SELECT REDUCED ?s", "", (1, 38), "it is REDUCED"),
        ("SELECT (SUM(?n + 1) AS ?m)", "", (1, 39), "?m is not COUNT, SUM, AVG, MIN, MAX of a variable"),
        ("SELECT (SAMPLE(?n) AS ?m)", "", (1, 39), "?m is not COUNT, SUM, AVG, MIN, MAX of a variable"),
        ("SELECT (COUNT(*) AS ?m)", "GROUP BY (STR(?s))", (2, 53), "it groups by an expression"),
        ("SELECT (RAND() AS ?m)", "", (1, 49), "?m is not a deterministic function of variables"),
        ("SELECT (?x + 1 AS ?m)", "", (1, 49), "?m uses a variable that not all solutions bind"),
        ("SELECT ?s ?x", "", (1, 41), "?x is not bound by all solutions"),
    ],
)
def test_what_the_head_is_to_blame_for_has_its_place(head: str, tail: str, place: tuple[int, int], says: str) -> None:
    text = f"REGISTER RSTREAM <urn:out> AS {head} FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 2s STEP 1s]\n"
    plan = explain_plan(parse(text + "WHERE { WINDOW <urn:w> { ?s <urn:p> ?n } } " + tail))
    assert str(plan["reason"]).startswith(says)
    assert (plan["line"], plan["column"]) == place


def test_one_that_insists_on_native_is_told_why_it_cannot_be() -> None:
    with pytest.raises(ConfigError, match="cannot run natively: line 7, column 3: OPTIONAL"):
        build(parse(LEFT), {"urn:g": []}, evaluator=EvaluatorKind.NATIVE)
    assert explain_plan(parse(NATIVE), wanted=EvaluatorKind.SNAPSHOT)["reason"] == "--evaluator snapshot was given"
