"""What becomes of an answer whose SERVICE part was never fetched: emit or drop."""

from collections.abc import Mapping, Sequence

import pyoxigraph as ox
import pytest

from freshkeeper import BudgetRule, Source, run
from freshkeeper.maintenance.cache.evaluation import Record
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings, PolicyName
from freshkeeper.maintenance.engine.service_join.service_checks import Missing
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build

BLOG = "@prefix : <urn:> . :jazz :by :ann, :bob . :rock :by :bob . :ann :n 10 . :bob :n 20 ."
TUMBLING = "FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S]"
WINDOW = "WINDOW :w { ?post :topic ?topic }"
SERVICE = "SERVICE :blog { ?topic :by ?user . ?user :n ?n }"
PLAIN = f"SELECT ?post ?user ?n {TUMBLING} {{ {WINDOW} {SERVICE} }}"
GROUPS = f"SELECT ?topic (SUM(?n) AS ?sum) {TUMBLING} {{ {WINDOW} {SERVICE} }} GROUP BY ?topic"


def posts(*each: tuple[int, str]) -> list[tuple[int, ox.Triple]]:
    return [
        (at, ox.Triple(ox.NamedNode(f"urn:{topic}{at}"), ox.NamedNode("urn:topic"), ox.NamedNode(f"urn:{topic}")))
        for at, topic in each
    ]


def answered(
    text: str,
    missing: Missing,
    elements: Sequence[tuple[int, ox.Triple]],
    kind: str = "snapshot",
    data: str = BLOG,
    budget: float = 1,
) -> tuple[dict[int, list[str]], list[Record], list[Result]]:
    seen: list[Record] = []
    settings = MaintenanceSettings(
        PolicyName("lru" if "GROUP" not in text else "bundle"),
        BudgetRule.of(budget),
        missing=missing,
        observe=lambda _source, _manager, evaluation: seen.append(evaluation.record),
    )
    blog = Source.embedded(data, ["urn:n"])
    built = build(
        parse(f"PREFIX : <urn:> {text}"), sources={"urn:blog": blog}, settings=settings, evaluator=EvaluatorKind(kind)
    )
    results = list(run(built, {"urn:s": elements}, drain=True))
    return {r.t: sorted(_said(bound, f.probability) for bound, f in r.solutions()) for r in results}, seen, results


def _said(bound: Mapping[str, object], fresh: float) -> str:
    values = " ".join(f"{name}={str(getattr(term, 'value', '')).removeprefix('urn:')}" for name, term in bound.items())
    return f"{values} {'missing' if fresh == 0 else 'known'}"


STREAM = posts((100, "jazz"), (200, "rock"), (1100, "pop"), (3100, "rock"))
"""With one request for each evaluation, one of jazz and rock is fetched at once, and the other never needed again."""


@pytest.mark.parametrize("kind", ["snapshot", "native"])
def test_emit_gives_every_event_an_answer(kind: str) -> None:
    found, seen, _ = answered(PLAIN, Missing.EMIT, STREAM, kind)
    assert sorted(line.partition(" ")[0] for line in found[1000]) in (
        ["post=jazz100", "post=jazz100", "post=rock200"],
        ["post=jazz100", "post=rock200"],
    )
    assert sum(line.endswith("missing") for line in found[1000]) == 1
    assert found[2000] == [], "pop was fetched: the source has nothing for it, which is an answer"
    assert [(one.missed, one.marked) for one in seen][:2] == [(0, 1), (0, 0)]


@pytest.mark.parametrize("kind", ["snapshot", "native"])
def test_emit_of_groups_is_what_optional_would_say(kind: str) -> None:
    found, _, _ = answered(GROUPS, Missing.EMIT, STREAM, kind)
    optional, _, _ = answered(GROUPS.replace(SERVICE, f"OPTIONAL {{ {SERVICE} }}"), Missing.DROP, STREAM)
    assert found[1000] == optional[1000]
    assert any(line.endswith("missing") and "sum" not in line for line in found[1000])


@pytest.mark.parametrize("kind", ["snapshot", "native"])
def test_drop_is_what_sparql_says_and_is_counted(kind: str) -> None:
    found, seen, _ = answered(PLAIN, Missing.DROP, STREAM, kind)
    assert all(line.endswith("known") for lines in found.values() for line in lines)
    assert [(one.missed, one.marked) for one in seen][:2] == [(1, 0), (0, 0)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"CONSTRUCT {{ ?post :n ?n }} {TUMBLING} {{ {WINDOW} {SERVICE} }}", "CONSTRUCT has no place"),
        (f"ASK {TUMBLING} {{ {WINDOW} {SERVICE} }}", "ASK has no place"),
        (f"SELECT * {TUMBLING} {{ {WINDOW} {SERVICE} }} LIMIT 3", "what stands behind its pattern"),
        (f"SELECT (SUM(?n) AS ?s) {TUMBLING} {{ {WINDOW} {SERVICE} }}", "put together what is known"),
        (f"SELECT * {TUMBLING} {{ {WINDOW} {SERVICE} FILTER(?n > 1) }}", r"\?n is made of"),
        (
            f"SELECT * {TUMBLING} {{ {WINDOW} {SERVICE} BIND(?n * 2 AS ?m) FILTER(?m > 1) }}",
            r"\?m is made of",
        ),
        (f"SELECT * {TUMBLING} {{ {WINDOW} {SERVICE} ?user :kind ?kind }}", r"\?user is made of"),
        (f"SELECT * {TUMBLING} {{ {WINDOW} MINUS {{ {SERVICE} }} }}", "does not show what it lacks"),
    ],
)
def test_where_a_row_would_be_taken_for_something_else_answers_are_dropped(text: str, why: str) -> None:
    said: list[str] = []
    settings = MaintenanceSettings(PolicyName(), BudgetRule.of(0), missing=Missing.EMIT, dropping=said.append, seed=1)
    sources = {"urn:blog": Source.embedded(BLOG, ["urn:n"])}
    query = build(parse(f"PREFIX : <urn:> {text}"), sources=sources, settings=settings)
    (result, *_) = run(query, {"urn:s": STREAM})
    (reason,) = said
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(reason)
    assert all("missing" not in str(answer) for answer in result.answers)
