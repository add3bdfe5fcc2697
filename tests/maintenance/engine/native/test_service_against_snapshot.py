"""SERVICE from the view says the same on both evaluators: answers, how fresh and how old they are, what was spent."""

import random
import re
from collections.abc import Sequence

import pytest
from evaluators import said
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from freshkeeper import BudgetRule, Source
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_checks import Missing
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.policies.registry import make

SEEDS = [n if n < 8 else pytest.param(n, marks=pytest.mark.slow) for n in range(40)]
ROUNDS = [
    "RANGE PT4S STEP PT1S",
    "RANGE PT3S STEP PT2S",
    "RANGE PT2S",
    "ELEMENTS 4 STEP 2",
    "NOW",
    "RANGE PT2S STEP PT1S CLOSURE RIGHT_OPEN",
]
BLOG = "SERVICE <urn:blog> { ?topic <urn:by> ?user . ?user <urn:n> ?n }"
BODIES = [
    BLOG,
    BLOG + " FILTER(?n > 2)",
    BLOG + " FILTER(?user != ?post)",
    "SERVICE <urn:blog> { ?topic <urn:n> ?n }",
    "SERVICE <urn:blog> { ?topic <urn:by> ?user . ?user <urn:n> ?n OPTIONAL { ?user <urn:name> ?name } }",
    "SERVICE <urn:blog> { ?topic <urn:by> ?user . ?topic <urn:place> ?place . ?user <urn:n> ?n }",
    BLOG + " SERVICE <urn:shop> { ?topic <urn:by> ?user . ?user <urn:price> ?price }",
    BLOG + " SERVICE <urn:shop> { ?topic <urn:price> ?price }",
    BLOG + " ?topic <urn:kind> ?kind",
    "?topic <urn:owner> ?owner SERVICE <urn:blog> { ?owner <urn:n> ?n }",
    "?topic <urn:owner> ?owner SERVICE <urn:blog> { ?of <urn:by> ?owner . ?of <urn:n> ?n }",
    "SERVICE <urn:blog> { ?topic <urn:by> ?user . ?user <urn:n> ?post }",
]
PATTERNS = [
    "?post <urn:topic> ?topic",
    "?post <urn:topic> ?topic . ?post <urn:at> ?at",
    "?a <urn:topic> ?topic . ?post <urn:topic> ?topic",
]


def topic(draw: random.Random) -> NamedNode | BlankNode:
    return NamedNode(f"urn:t{draw.randrange(4)}") if draw.random() < 0.97 else BlankNode("t")


def stream(draw: random.Random) -> list[tuple[int, Triple]]:
    """Posts, some of them again and again, some at one instant."""
    at, found = 0, []
    for _ in range(draw.randrange(5, 30)):
        at += draw.choice([0, 0, 200, 500, 1000, 2500])
        post = NamedNode(f"urn:p{draw.randrange(6)}")
        found.append((at, Triple(post, NamedNode("urn:topic"), topic(draw))))
        if draw.random() < 0.4:
            found.append((at, Triple(post, NamedNode("urn:at"), Literal(draw.randrange(3)))))
    return found


XSD = "http://www.w3.org/2001/XMLSchema#"
MIXED = [
    Literal(1), Literal(1.0), Literal(0.1), Literal(0.2), Literal(0.3), Literal(1e16), Literal("1"), Literal(2**62),
    *(Literal(text, datatype=NamedNode(XSD + "decimal")) for text in ("1.0", "0.1")),
]  # fmt: skip


def background(draw: random.Random) -> tuple[list[Quad], list[tuple[int, Quad]]]:
    """Data with blank nodes and missing values, and its changes."""
    users = [NamedNode(f"urn:u{n}") for n in range(4)] + [BlankNode("u")]
    topics = [NamedNode(f"urn:t{n}") for n in range(4)]
    quads = [Quad(t, NamedNode("urn:by"), u) for t in topics for u in users if draw.random() < 0.5]
    quads += [Quad(t, NamedNode("urn:place"), Literal(n)) for t in topics for n in range(draw.randrange(3))]
    quads += [Quad(s, NamedNode("urn:n"), Literal(draw.randrange(5))) for s in (*users, *topics) if draw.random() < 0.8]
    quads += [Quad(s, NamedNode("urn:price"), Literal(1)) for s in (*users, *topics) if draw.random() < 0.7]
    quads += [Quad(u, NamedNode("urn:name"), Literal("x")) for u in users if draw.random() < 0.5]
    volatile = [q for q in quads if q.predicate.value in ("urn:n", "urn:price") and isinstance(q.subject, NamedNode)]
    changes = [
        (draw.randrange(0, 20_000), Quad(q.subject, q.predicate, Literal(draw.randrange(5))))
        for q in volatile
        for _ in range(3)
    ]
    return quads, changes


def of_mixed_type(draw: random.Random, quad: Quad) -> Quad:
    """The same of a number of some type."""
    return Quad(quad.subject, quad.predicate, draw.choice(MIXED)) if quad.predicate.value == "urn:n" else quad


def query(draw: random.Random) -> str:
    shown = draw.choice(["*", "*", "?topic ?n", "DISTINCT ?topic", "DISTINCT *"])
    body = draw.choice(BODIES)
    shown = "*" if "?n" in shown and "?n" not in body else shown
    operator = draw.choice(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])
    window = f"FROM NAMED WINDOW <urn:w> ON <urn:s> [{draw.choice(ROUNDS)}]"
    head = f"PREFIX : <urn:> REGISTER {operator} <urn:out> AS SELECT {shown} {window}"
    return f"{head} {{ WINDOW <urn:w> {{ {draw.choice(PATTERNS)} }} {body} }}"


def grouped_query(draw: random.Random) -> str:
    """Groups that keep SNs apart, groups that do not, and one group of all."""
    text, function = query(draw), draw.choice(["SUM", "AVG", "MIN", "MAX", "COUNT"])
    body = text[text.index("{") :]
    variable = draw.choice([name for name in ("?n", "?user", "?price", "?topic") if name in body])
    keys = draw.choice(["", "?topic", "?topic", "?topic ?post", "?post"])
    made = f"({function}({draw.choice(['', 'DISTINCT '])}{variable}) AS ?made)"
    text = re.sub(r"SELECT .*? FROM NAMED", f"SELECT {keys} {made} (COUNT(*) AS ?count) FROM NAMED", text)
    return text + (f" GROUP BY {keys}" if keys else "")


def settings(seed: int, seen: list[tuple[object, ...]], policies: Sequence[str]) -> MaintenanceSettings:
    draw = random.Random(seed)

    def observe(source: str, _: Manager, evaluation: Evaluation) -> None:
        one = evaluation.record
        numbers = one.results, one.window_mappings, one.spent, one.candidates, one.requests, one.missed, one.marked
        seen.append((source, one.t_ms, *numbers, *evaluation.audits))

    name = draw.choice(policies)
    budget = BudgetRule.of(draw.choice([0.5, 1, 2, 5, 50]), draw.choice([0, 4]))
    capacity = draw.choice([None, None, 3])
    missing = draw.choice([Missing.EMIT, Missing.DROP])
    audit, target = draw.choice([0, 0, 0.3, 0.6]), draw.choice([None, None, None, 0.8])
    return MaintenanceSettings(
        lambda _: make(name), budget, capacity=capacity, seed=seed, observe=observe, missing=missing, audit=audit,
        target=target,
    )  # fmt: skip


def answered(
    text: str,
    seed: int,
    kind: str,
    policies: Sequence[str] = ("gain", "ibm", "lru", "random", "plan"),
    mixed: bool = False,
) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    draw = random.Random(seed)
    elements, (quads, changes) = stream(draw), background(draw)
    if mixed:
        quads = [of_mixed_type(draw, quad) for quad in quads]
        changes = [(t, of_mixed_type(draw, quad)) for t, quad in changes]
    volatile = {"urn:blog": ["urn:n"], "urn:shop": ["urn:price"]}
    sources = {name: Source.embedded(quads, each, list(changes)) for name, each in volatile.items()}
    kinds = [Quad(NamedNode(f"urn:t{n}"), NamedNode("urn:kind"), Literal(n % 2)) for n in range(3)]
    owner = NamedNode("urn:owner")
    owners = [Quad(NamedNode(f"urn:t{n}"), owner, NamedNode(f"urn:u{n // m}")) for n in range(4) for m in (1, 2)]
    graphs = {"": kinds + owners}
    seen: list[tuple[object, ...]] = []
    built = build(
        parse(text), graphs, sources=sources, settings=settings(seed, seen, policies), evaluator=EvaluatorKind(kind)
    )
    return said(run(built, {"urn:s": elements}, drain=draw.random() < 0.3)), seen


@pytest.mark.parametrize("seed", SEEDS)
def test_both_evaluators_say_the_same(seed: int) -> None:
    text = query(random.Random(f"query {seed}"))
    expected, recorded = answered(text, seed, "snapshot")
    assert answered(text, seed, "native") == (expected, recorded), text


@pytest.mark.parametrize("seed", SEEDS)
def test_both_evaluators_say_the_same_of_groups(seed: int) -> None:
    text, policies = grouped_query(random.Random(f"groups {seed}")), ("bundle", "sbm", "lru", "random")
    expected, recorded = answered(text, seed, "snapshot", policies)
    assert answered(text, seed, "native", policies) == (expected, recorded), text


@pytest.mark.parametrize("seed", SEEDS)
def test_both_evaluators_say_the_same_of_groups_of_mixed_numbers(seed: int) -> None:
    text, policies = grouped_query(random.Random(f"mixed {seed}")), ("bundle", "sbm", "lru", "random")
    expected, recorded = answered(text, seed, "snapshot", policies, mixed=True)
    assert answered(text, seed, "native", policies, mixed=True) == (expected, recorded), text


@pytest.mark.parametrize("kind", ["native", "snapshot"])
def test_what_a_static_graph_says_of_elements_can_be_asked_for(kind: str) -> None:
    text = """SELECT ?post ?n FROM NAMED <urn:g> FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S]
    { WINDOW <urn:w> { ?post <urn:topic> ?topic } GRAPH <urn:g> { ?topic <urn:owner> ?user }
      SERVICE <urn:blog> { ?user <urn:n> ?n } }"""
    topic, owner, n = (NamedNode(f"urn:{name}") for name in ("topic", "owner", "n"))
    graphs = {"urn:g": [Quad(NamedNode("urn:jazz"), owner, NamedNode(f"urn:{name}")) for name in ("ann", "bob")]}
    quads = [Quad(NamedNode(f"urn:{name}"), n, Literal(at)) for at, name in enumerate(["ann", "bob", "cyd"])]
    source = Source.embedded(quads, ["urn:n"])
    given = MaintenanceSettings(lambda _: make("lru"), BudgetRule.of(2))
    query = build(parse(text), graphs, sources={"urn:blog": source}, settings=given, evaluator=EvaluatorKind(kind))
    (result,) = run(query, {"urn:s": [(1000, Triple(NamedNode("urn:p"), topic, NamedNode("urn:jazz")))]})
    assert sorted(int(answer["n"].value) for answer, _ in result.solutions()) == [0, 1]  # type: ignore[union-attr]
    assert [fresh.probability for _, fresh in result.solutions()] == [1.0, 1.0]
