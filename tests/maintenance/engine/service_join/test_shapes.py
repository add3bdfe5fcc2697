"""Queries of every shape around and inside SERVICE, against SPARQL over all that windows and source really hold."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, QueryBoolean, QueryTriples, Store, Triple

from freshkeeper import Source, continuous_query, run
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.service_join.maintenance_settings import DEFAULTS, MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.policies.registry import make

E = "http://example.org/"
RANGE = 4000
WINDOW = "WINDOW :w { ?p :topic ?t }"
SERVICE = "SERVICE :b { ?t :discussedBy ?u . ?u :followers ?n }"


def service(pattern: str, head: str = "SELECT ?p ?t ?n ?u", tail: str = "") -> str:
    """A query whose SERVICE block begins with the edge."""
    return f"{head} @ {{ {WINDOW} SERVICE :b {{ ?t :discussedBy ?u . {pattern} }} }} {tail}"


SUMS = "SELECT ?t (SUM(?n) AS ?s)"
COUNT = "SELECT (COUNT(*) AS ?c)"
NUMBER = "WINDOW :w { ?p :num ?k }"
BY = "WINDOW :w { ?p :by ?u }"
BOTH = f"SELECT * @ {{ {BY} SERVICE"
AGAIN = "WINDOW :w { ?q :topic ?t }"
LAST = "ORDER BY DESC(?n) ?t LIMIT 1"
ANSWERED = {
    "plain": f"SELECT ?p ?t ?n @ {{ {WINDOW} {SERVICE} }}",
    "in WINDOW": f"{COUNT} @ {{ WINDOW :w {{ ?p :topic ?t {SERVICE} }} }}",
    "OPTIONAL in WINDOW": f"SELECT ?p ?n @ {{ WINDOW :w {{ ?p :topic ?t OPTIONAL {{ {SERVICE} }} }} }}",
    "ASK in WINDOW": f"ASK @ {{ WINDOW :w {{ ?p :topic ?t {SERVICE} }} }}",
    "a branch with its values": f"{COUNT} @ {{ {{ {WINDOW} {SERVICE} }} UNION {{ WINDOW :w {{ ?p :num ?n }} }} }}",
    "an OPTIONAL with its values": f"{COUNT} @ {{ {WINDOW} OPTIONAL {{ {BY} }} {SERVICE} }}",
    "UNION with nothing": f"SELECT ?t (COUNT(?n) AS ?c) @ {{ {WINDOW} {{ {SERVICE} }} UNION {{}} }} GROUP BY ?t",
    "UNION": f"SELECT ?t ?n ?x @ {{ {WINDOW} {{ {SERVICE} }} UNION {{ BIND(1 AS ?x) }} }}",
    "UNION of windows": f"SELECT ?u ?n @ {{ {{ {BY} }} UNION {{ WINDOW :w {{ ?q :by ?u }} }} "
    "SERVICE :b { ?u :followers ?n } }",
    "two": f"SELECT ?n ?m @ {{ {WINDOW} {SERVICE} WINDOW :w {{ ?q :by ?v }} SERVICE :b {{ ?v :followers ?m }} }}",
    "OPTIONAL": f"SELECT ?p ?n @ {{ {WINDOW} OPTIONAL {{ {SERVICE} FILTER(?n > 15) }} }}",
    "OPTIONAL, bound again": f"SELECT * @ {{ OPTIONAL {{ {WINDOW} {SERVICE} FILTER(?n > 15) }} {AGAIN} }}",
    "VALUES after OPTIONAL": f"SELECT ?p ?n @ {{ {WINDOW} OPTIONAL {{ {SERVICE} }} VALUES ?n {{ 10 20 }} }}",
    "a window after OPTIONAL": f"SELECT ?p ?n ?q @ {{ {WINDOW} OPTIONAL {{ {SERVICE} }} WINDOW :w {{ ?q :by ?u }} }}",
    "OPTIONAL after it": f"SELECT ?p ?n ?k @ {{ {WINDOW} OPTIONAL {{ {SERVICE} OPTIONAL {{ {NUMBER} }} }} }}",
    "MINUS after it": f"SELECT ?p ?n @ {{ {WINDOW} {{ {SERVICE} MINUS {{ {NUMBER} }} }} }}",
    "MINUS": f"SELECT ?p ?t @ {{ {WINDOW} MINUS {{ {SERVICE} FILTER(?n > 15) }} }}",
    "EXISTS": f"SELECT ?p ?e @ {{ {WINDOW} BIND(EXISTS {{ {SERVICE} FILTER(?n > 15) }} AS ?e) }}",
    "EXISTS with a block that looks at what is outside": f"SELECT ?p ?t @ {{ {WINDOW} FILTER EXISTS {{ "
    f"{{ FILTER(?t != :t2) }} {SERVICE} }} }}",
    "FILTER over what BIND makes of it": f"SELECT ?p ?m @ {{ {WINDOW} {SERVICE} BIND(?n * 2 AS ?m) FILTER(?m > 30) }}",
    "inner FILTER that sees less": f"SELECT ?p ?n @ {{ {WINDOW} {{ {SERVICE} FILTER(BOUND(?p) || ?n > 15) }} }}",
    "values computed": f'SELECT ?x ?n @ {{ {WINDOW} BIND(IRI(REPLACE(STR(?t), "t1", "t0")) AS ?x) '
    "SERVICE :b { ?x :discussedBy ?u . ?u :followers ?n } }",
    "values that fail to compute": f"{COUNT} @ {{ {WINDOW} BIND(IF(?t = :t1, 1/0, ?t) AS ?x) "
    "SERVICE :b { ?x :discussedBy ?u . ?u :followers ?n } }",
    "sub-query that groups": f"SELECT ?p ?s @ {{ {WINDOW} {{ {SUMS} {{ {SERVICE} }} GROUP BY ?t }} }}",
    "sub-query with its own name": f"SELECT ?p ?u ?s @ {{ {WINDOW} {BY} {{ {SUMS} {{ {SERVICE} }} GROUP BY ?t }} }}",
    "sub-query with its own window": f"SELECT ?s @ {{ {{ SELECT (SUM(?n) AS ?s) {{ {WINDOW} {SERVICE} }} }} }}",
    "HAVING": f"{SUMS} @ {{ {WINDOW} {SERVICE} }} GROUP BY ?t HAVING (SUM(?n) < 50)",
    "ORDER": f"SELECT ?t ?n @ {{ {WINDOW} {SERVICE} }} ORDER BY ?n ?t LIMIT 2",
    "CONSTRUCT": f"CONSTRUCT {{ ?t :sum ?s }} @ {{ {WINDOW} {{ {SUMS} {{ {SERVICE} }} GROUP BY ?t }} }}",
    "inside: OPTIONAL": service("?u :followers ?n OPTIONAL { ?u :name ?m }"),
    "inside: nothing but OPTIONAL": service("OPTIONAL { ?u :followers ?n }"),
    "inside: OPTIONAL before": service("OPTIONAL { ?u :followers ?n } ?u :followers ?m", f"{COUNT} (SUM(?n) AS ?s)"),
    "inside: nothing but OPTIONAL, counted": service("OPTIONAL { ?u :followers ?n }", COUNT),
    "inside: MINUS": service("?u :followers ?n MINUS { ?u :blocked ?z }"),
    "inside: UNION": service("{ ?u :followers ?n } UNION { ?u :name ?m }", "SELECT ?t ?n ?m"),
    "inside: the same twice": service("{ ?u :followers ?n } UNION { ?u :followers ?n }", SUMS, "GROUP BY ?t"),
    "inside: an edge twice": service("?u :followers ?n . { ?u :name ?m } UNION { ?u :name ?m }", COUNT),
    "inside: a blank node": service("?u :followers ?n . _:x :discussedBy ?u", COUNT),
    "inside: labels that are alike": service("?u :followers ?n . _:x.y :discussedBy ?u . _:x_y :discussedBy ?u", COUNT),
    "inside: brackets": f"{SUMS} @ {{ {WINDOW} SERVICE :b {{ ?t :discussedBy [ :followers ?n ] }} }} GROUP BY ?t",
    "inside: any with as many": service("?u :followers ?n . [] :followers ?n", COUNT),
    "inside: OPTIONAL that looks at what changes": service("?u :followers ?n OPTIONAL { ?u :name ?m FILTER(?n > 10) }"),
    "inside: MINUS of what changes": service("?u :followers ?n MINUS { ?u :name ?m . ?v :blocked ?n }"),
    "inside: OPTIONAL that binds the rest": service("OPTIONAL { ?t :discussedBy ?v } ?v :followers ?n", "SELECT *"),
    "inside: VALUES": service("?u :followers ?n VALUES ?u { :u0 :u1 :u1 }"),
    "inside: the key, and OPTIONAL": f"{BOTH} :b {{ ?u :followers ?n OPTIONAL {{ ?u :name ?m }} }} }}",
    "inside: a label, and OPTIONAL": f"{BOTH} :b {{ _:x :discussedBy ?u OPTIONAL {{ ?u :followers ?n }} }} }}",
    "inside: NOT EXISTS": service("?u :followers ?n FILTER NOT EXISTS { ?v :followers ?m FILTER(?m > ?n) }"),
    "inside: any predicate": service("?u ?f ?n", "SELECT *"),
    "inside: any predicate, of all": f"SELECT * @ {{ {WINDOW} SERVICE :b {{ ?t ?a ?u . ?u ?f ?n }} }}",
    "inside: any predicate, summed": f"{SUMS} @ {{ {WINDOW} {{ SERVICE :b {{ ?t :discussedBy ?u . ?u ?f ?n "
    "FILTER(isNumeric(?n)) } } } GROUP BY ?t",
    "inside: all predicates but one": service("?u !:name ?n"),
    "inside: one predicate and all but another": service("?u :followers ?m . ?u !:name ?n", "SELECT *"),
    "inside: any predicate in brackets": service("[] ?f ?u . ?u :followers ?n", "SELECT *"),
    "inside: OPTIONAL of any predicate": service("OPTIONAL { ?u ?f ?n FILTER(?n > 10) }", "SELECT *"),
    "inside: any predicate of two": service("?u ?f ?n . ?t ?g ?v FILTER(?u != ?v)", "SELECT *"),
    "inside: any predicate of a branch": f"SELECT * @ {{ {WINDOW} SERVICE :b {{ {{ ?t ?a ?u }} UNION {{ ?u ?f 10 }} "
    "} }",
    "inside: MINUS of any predicate": service("?u :followers ?n MINUS { ?u ?f true }"),
    "inside: a value that the window gives": f"SELECT * @ {{ {NUMBER} {BY} SERVICE :b {{ ?u ?g ?k }} }}",
    "inside: sub-query": f"SELECT ?p ?s @ {{ {WINDOW} SERVICE :b {{ {SUMS} {{ ?t :discussedBy ?u . ?u :followers ?n }} "
    "GROUP BY ?t } }",
}
REFUSED = {
    "sub-query that hides the value": f"SELECT ?p ?s @ {{ {WINDOW} {{ SELECT (SUM(?n) AS ?s) {{ {SERVICE} }} }} }}",
    "sub-query with LIMIT": f"SELECT ?p ?n @ {{ {WINDOW} {{ SELECT ?t ?n {{ {SERVICE} }} {LAST} }} }}",
    "sub-query that counts": f"SELECT ?p ?c @ {{ {WINDOW} {{ SELECT (COUNT(DISTINCT ?t) AS ?c) {{ {SERVICE} }} }} }}",
    "value from a BIND that comes too early": f"{COUNT} @ {{ BIND(?x AS ?t) {SERVICE} WINDOW :w {{ ?p :by ?x }} }}",
    "value from a BIND of what one branch binds": (
        f"{COUNT} @ {{ {{ WINDOW :w {{ ?p :topic ?x }} }} UNION {{ {NUMBER} }} BIND(?x AS ?t) {SERVICE} }}"
    ),
    "value from OPTIONAL alone": f"{COUNT} @ {{ WINDOW :w {{ ?p ?a ?b }} OPTIONAL {{ {WINDOW} }} {SERVICE} }}",
    "OPTIONAL first": f"SELECT ?p ?n @ {{ OPTIONAL {{ {SERVICE} }} {WINDOW} }}",
    "OPTIONAL alone in its group": f"SELECT ?p ?n @ {{ {WINDOW} {{ OPTIONAL {{ {SERVICE} }} }} }}",
    "MINUS of the first": f"SELECT ?p @ {{ {WINDOW} MINUS {{ SELECT ?t {{ {SERVICE} }} {LAST} }} }}",
}

SHOWN = (
    "SELECT ?t (SUM(?n) AS ?c) @ GROUP BY ?t",
    "SELECT ?t (COUNT(*) AS ?c) @ GROUP BY ?t HAVING (COUNT(*) > 1)",
    "SELECT ?t ?u (COUNT(*) AS ?c) @ GROUP BY ?t ?u",
    "SELECT ?p (COUNT(*) AS ?c) @ GROUP BY ?p",
    "SELECT ?t ?u (?n * 2 AS ?c) @",
    "SELECT DISTINCT ?t (?n AS ?c) @",
)
"""Heads and tails of sub-queries that compute ?c."""
HOLDING = (
    f"{WINDOW} {SERVICE}",
    f"{AGAIN} {SERVICE} FILTER(?n > 15)",
    f"{WINDOW} OPTIONAL {{ {SERVICE} }}",
    f"{WINDOW} {{ {SERVICE} }} UNION {{ {NUMBER} }}",
)
LOOKED_AT = (
    "FILTER(?c > 1)",
    "FILTER(BOUND(?c))",
    "FILTER(!BOUND(?n))",
    "BIND(?c * 2 AS ?d) FILTER(?d IN (2, 4, 40))",
    "MINUS { WINDOW :w { ?p :num ?c } }",
    "FILTER EXISTS { WINDOW :w { ?x :num ?k } FILTER(?k > ?c) }",
    "FILTER NOT EXISTS { WINDOW :w { ?x :num ?c } }",
    "BIND(EXISTS { WINDOW :w { ?x :num ?c } } AS ?e)",
    "OPTIONAL { WINDOW :w { ?p :num ?k } FILTER(?k < ?c) }",
    "OPTIONAL { WINDOW :w { ?x :num ?c } }",
    "WINDOW :w { ?x :num ?c }",
    "{ WINDOW :w { ?x :num ?c } FILTER(?c > 5) }",
    "{ SELECT (COUNT(*) AS ?c) { WINDOW :w { ?x :num ?k } } }",
    "VALUES ?c { 1 2 10 20 40 }",
)
"""What may look at ?c beside the sub-query."""

LOOKING = {
    "MINUS before what it looks at": (
        f"SELECT * @ {{ {WINDOW} SERVICE :b {{ MINUS {{ ?t :name ?m }} ?t :discussedBy ?u . ?u :followers ?n }} }}",
        r"looks at \?t; let the pattern bind it before it, in every branch",
    ),
    "FILTER on what a branch does not bind": (
        f"SELECT * @ {{ {WINDOW} SERVICE :b {{ {{ ?t :followers ?n }} UNION {{ ?u :followers ?n }} "
        "FILTER(BOUND(?t)) } }",
        r"looks at \?t; let the pattern bind it everywhere, in every branch",
    ),
    "OPTIONAL over both parts": (
        f"SELECT * @ {{ {WINDOW} SERVICE :b {{ ?t :discussedBy ?u ; :name ?m . ?u :followers ?n "
        "OPTIONAL { ?u :blocked ?z FILTER(?n > 10 && ?m != :x) } } }",
        r"looks at what changes and at what does not: \?m is no key",
    ),
    "BIND that joins": (
        f"SELECT * @ {{ {WINDOW} SERVICE :b {{ ?x :discussedBy ?u . ?u :followers ?n BIND(?x AS ?t) }} }}",
        r"computes \?t, which joins; move it behind the SERVICE block",
    ),
}


def node(name: str) -> NamedNode:
    """A name of the example."""
    return NamedNode(E + name)


@cache
def world(seed: int, edges: bool = False) -> tuple[list[tuple[int, Triple]], list[Quad], list[tuple[int, Quad]]]:
    """Elements, what the source has at first, and how it changes."""
    rng = random.Random(seed)
    elements, t, share = [], 500, 0.2 if edges else 0.6
    for _ in range(12):
        t += rng.choice([0, 300, 700, 1500, 1000])
        post = node(f"p{rng.randrange(4)}")
        elements.append((t, Triple(post, node("topic"), node(rng.choice(["t0", "t1", "t2", "t9"])))))
        if rng.random() < 0.3:
            elements.append((t, Triple(post, node("by"), node(f"u{rng.randrange(3)}"))))
        if rng.random() < 0.3:
            elements.append((t, Triple(post, node("num"), Literal(10 * rng.randrange(3)))))
    users = [node(f"u{n}") for n in range(3)]
    topics = [node(f"t{n}") for n in range(3)]
    known = [Quad(topic, node("discussedBy"), user) for topic in topics for user in users if rng.random() < share]
    about = [("followers", Literal(10 * rng.randrange(1, 4)), 0.8), ("blocked", Literal(True), 0.3)]
    facts = [Quad(user, node(name), value) for user in users for name, value, share in about if rng.random() < share]
    facts += [Quad(user, node("name"), Literal(user.value)) for user in users if rng.random() < 0.5]
    moments = sorted(rng.randrange(500, t + 2000) for _ in range(10))
    changes = [(at, Quad(rng.choice(users), node("followers"), _many(rng))) for at in moments]
    if edges:
        moments = [rng.randrange(500, t) for _ in range(8)]
        changes += [(at, Quad(topics[at % 3], node("discussedBy"), rng.choice(users))) for at in moments]
    return elements, known + facts, sorted(changes, key=lambda change: change[0])


def _many(rng: random.Random) -> Literal:
    return Literal(10 * rng.randrange(1, 4))


def truth(body: str, seed: int, now: int, edges: bool = False) -> Counter[object]:
    """What SPARQL says when window and source are graphs of one store."""
    elements, data, changes = world(seed, edges)
    source = Store()
    source.extend(data)
    for t, changed in changes:
        if t <= now:
            for old in list(source.quads_for_pattern(changed.subject, changed.predicate, None)):
                source.remove(old)
            source.add(changed)
    store = Store()
    store.extend(Quad(q.subject, q.predicate, q.object, node("b")) for q in source)
    store.extend(
        Quad(triple.subject, triple.predicate, triple.object, node("w"))
        for t, triple in elements
        if now - RANGE < t <= now
    )
    text = body.replace("@", "").replace("WINDOW :w", "GRAPH :w").replace("SERVICE :b", "GRAPH :b")
    found = store.query(f"PREFIX : <{E}> {text}")
    if isinstance(found, QueryBoolean):
        return Counter([bool(found)])
    if isinstance(found, QueryTriples):
        return Counter(str(triple) for triple in found)
    names = [name.value for name in found.variables]
    return Counter(tuple(sorted(zip(names, (str(row[n]) for n in names), strict=True))) for row in found)


def query(body: str) -> str:
    """The continuous query."""
    return f"PREFIX : <{E}> " + body.replace("@", "FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]")


def said(result: Any) -> Iterator[tuple[Any, float]]:
    """The answers of an evaluation, written like the truth's, and how sure each is."""
    for n, answer in enumerate(result.answers):
        written = answer
        if isinstance(answer, Triple):
            written = str(answer)
        elif not isinstance(answer, bool):
            written = tuple(sorted(zip(result.variables, map(str, answer), strict=True)))
        yield written, result.fresh(n).probability


@pytest.mark.parametrize("edges", [False, True], ids=["edges kept", "edges refreshed"])
@pytest.mark.parametrize("name", ANSWERED)
@pytest.mark.parametrize("worlds", ["0", pytest.param("13", marks=pytest.mark.slow)])
def test_what_is_sure_is_true_and_with_enough_budget_nothing_is_missing(worlds: str, name: str, edges: bool) -> None:
    sure = 0
    for seed, budget in product(map(int, worlds), (0, 1, 100)):
        elements, data, changes = world(seed, edges)
        blog = Source.embedded(data, volatile=[E + "followers"], changes=changes)
        running = continuous_query(query(ANSWERED[name]), {E + "b": blog}, budget=budget, edges=edges)
        for result in run(running, {E + "s": elements}):
            right, answers = truth(ANSWERED[name], seed, result.t, edges), list(said(result))
            known = Counter(answer for answer, fresh in answers if fresh == 1.0)
            assert not known - right, (seed, budget, result.t)
            if budget == 100 and all(fresh == 1.0 for _, fresh in answers):
                assert known == right, (seed, result.t)
            sure += known.total()
    assert sure or worlds == "0"


@pytest.mark.parametrize("fetch", [Fetch.VIEW, Fetch.ALWAYS])
@given(st.tuples(*map(st.sampled_from, (("SELECT *", "ASK", COUNT), SHOWN, HOLDING, LOOKED_AT))), st.integers(0, 30))
@settings(max_examples=examples(60))
def test_what_a_sub_query_computes_is_looked_at_from_outside_as_sparql_does(
    fetch: Fetch, shape: tuple[str, ...], seed: int
) -> None:
    head, shown, holding, looked = shape
    body = f"{head} @ {{ {WINDOW} {{ {shown.replace('@', f'{{ {holding} }}')} }} {looked} }}"
    elements, data, changes = world(seed)
    blog = Source.embedded(data, volatile=[E + "followers"], changes=changes)
    settings = MaintenanceSettings(lambda case: make(DEFAULTS[case]), BudgetRule.of(100), fetch=fetch)
    running = build(parse(query(body)), sources={E + "b": blog}, settings=settings)
    for result in run(running, {E + "s": elements}):
        answers = list(said(result))
        assert Counter(answer for answer, _ in answers) == truth(body, seed, result.t), result.t
        assert all(fresh == 1.0 for _, fresh in answers)


@pytest.mark.parametrize("name", ["in WINDOW", "inside: a blank node", "inside: sub-query", *REFUSED])
def test_without_a_view_every_shape_is_answered(name: str) -> None:
    body = (ANSWERED | REFUSED)[name]
    for seed in range(3):
        elements, data, changes = world(seed)
        sources = {E + "b": Source.embedded(data, volatile=[E + "followers"], changes=changes)}
        settings = MaintenanceSettings(lambda case: make(DEFAULTS[case]), BudgetRule.of(100), fetch=Fetch.ALWAYS)
        running = build(parse(query(body)), {}, sources=sources, settings=settings)
        for result in run(running, {E + "s": elements}):
            assert Counter(answer for answer, _ in said(result)) == truth(body, seed, result.t), (seed, result.t)


@pytest.mark.parametrize("name", REFUSED)
def test_where_no_value_of_the_window_reaches_the_service_a_view_says_so(name: str) -> None:
    with pytest.raises(SplitError, match=r"the windows do not always give it \?t where it stands"):
        continuous_query(query(REFUSED[name]), {E + "b": Source.embedded([], volatile=[E + "followers"])})


@pytest.mark.parametrize(("body", "says"), LOOKING.values(), ids=LOOKING)
def test_what_would_look_at_values_that_a_request_binds_too_early_is_refused(body: str, says: str) -> None:
    with pytest.raises(SplitError, match=says):
        continuous_query(query(body), {E + "b": Source.embedded([], volatile=[E + "followers"])})
