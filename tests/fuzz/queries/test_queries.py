"""Random queries through the engine, against the algebra: no wrong sure answer, none missing, none doubled.

    make fuzz FUZZ_SEED=day

runs 100,000 of them, others with every FUZZ_SEED. A failure prints its seed and a query that was made smaller.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from algebra import Group, Optional, Select, walk
from query_generator import Case, case_of
from query_runner import FoundError, compare, instants, outcome, query_text, running, truth
from shrinking import shrunk

from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind

QUERIES = int(os.environ.get("FUZZ_QUERIES", "1000"))
SEED = os.environ.get("FUZZ_SEED", "")
FAILING = ("wrong", "crash")


def fails(case: Case) -> bool:
    """Whether a case shows a defect, on either evaluator."""
    return any(outcome(case, kind).kind in FAILING for kind in (EvaluatorKind.AUTO, EvaluatorKind.SNAPSHOT))


def described(case: Case) -> str:
    """All that it takes to see it again: the case found, and a smaller one."""
    small = shrunk(case, fails)
    return (
        f"seed {case.seed!r}: {outcome(case).why}\n  {query_text(case)}\n"
        f"made smaller: {outcome(small).why}\n  {query_text(small)}\n"
        f"  {small.fetch}, budget {small.budget}, edges {small.edges}, volatile {small.volatile}\n"
        f"  {small.world}"
    )


def described_counts(found: Counter[str], refused: Counter[str]) -> str:
    """What happened to all the queries."""
    lines = [f"  {count:6} {why}" for why, count in refused.most_common()]
    return "\n".join([", ".join(f"{count} {what}" for what, count in found.items()), "refused:", *lines])


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_what_is_sure_is_right_and_nothing_is_missing_or_doubled() -> None:
    found, refused = Counter[str](), Counter[str]()
    for n in range(QUERIES):
        case = case_of(f"{SEED}{n}")
        came = outcome(case)
        assert came.kind not in FAILING, described(case)
        if came.native:
            assert outcome(case, EvaluatorKind.SNAPSHOT).kind not in FAILING, f"by snapshots: {described(case)}"
        found += Counter({came.kind: 1, "evaluations": came.evaluations, "right answers": came.answers})
        found += Counter({"sure": came.sure, "evaluations complete": came.complete})
        found["on both evaluators"] += came.native
        refused += Counter([came.why] if came.kind == "refused" else [])
    print(f"\n{described_counts(found, refused)}")
    assert found["fine"] > QUERIES / 2
    assert found["on both evaluators"] > QUERIES / 50
    assert found["sure"] > QUERIES / 2
    assert found["evaluations complete"] > QUERIES / 2


def complete_case() -> Case:
    """A case whose answers must be complete, and which has some at its last instant."""
    cases = (case_of(f"complete {n}") for n in count())
    chosen = (case for case in cases if (case.form, case.operator, case.fetch) == ("SELECT", "RSTREAM", "always"))
    return next(
        case for case in chosen if outcome(case).kind == "fine" and any(truth(case, t) for t in instants(case)[-1:])
    )


@pytest.mark.parametrize(
    ("doctored", "says"),
    [
        (lambda results: results[:-1], "evaluations at"),
        (lambda results: [*results[:-1], replace(results[-1], answers=())], "is missing"),
        (lambda results: [*results[:-1], replace(results[-1], errors=1)], "1 requests failed"),
        (lambda results: [*results[:-1], twice(results[-1])], "is sure and wrong"),
    ],
    ids=["an evaluation is lost", "answers are missing", "a request fails", "an answer is doubled"],
)
def test_the_comparison_sees_what_is_wrong(doctored: Callable[[list[object]], list[object]], says: str) -> None:
    case = complete_case()
    right = {now: truth(case, now) for now in instants(case)}
    results = list(running(case))
    assert compare(case, results, right).complete == len(results)
    with pytest.raises(FoundError, match=says):
        compare(case, doctored(results), right)


def twice(result: Any) -> Any:
    """A result with its first answer twice."""
    freshness = None if result.freshness is None else [result.freshness[0], *result.freshness]
    return replace(result, answers=[result.answers[0], *result.answers], freshness=freshness)


def test_a_case_that_fails_is_made_as_small_as_what_makes_it_fail() -> None:
    case = next(c for c in map(case_of, map(str, count())) if any(isinstance(n, Optional) for n in walk(c.query)))
    small = shrunk(case, lambda each: any(isinstance(node, Optional) for node in walk(each.query)))
    assert small.query == Select(Group((Optional(Group()),)))
    assert sum(map(len, small.world.streams.values())) == len(small.world.streams)


def test_the_same_seed_is_the_same_case() -> None:
    assert case_of("7") == case_of("7") != case_of("8")
