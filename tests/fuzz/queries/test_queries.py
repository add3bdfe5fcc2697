"""Random queries through the engine, against the algebra: no wrong sure answer, none missing, none doubled.

    FUZZ_QUERIES=100000 FUZZ_SEED=day pytest tests/fuzz/queries -s

runs more of them, others with another FUZZ_SEED. A failure prints its seed and a query that was made smaller.
"""

import os
from collections import Counter
from dataclasses import replace

import pytest
from algebra import Group, Service, Term, Triple, Var, Within
from known import known
from query_generator import Case, case_of
from query_runner import Outcome, compare, instants, outcome, query_text, reason, running, truth
from shrinking import shrunk

QUERIES = int(os.environ.get("FUZZ_QUERIES", "5000"))
SEED = os.environ.get("FUZZ_SEED", "")
FAILING = ("wrong", "crash")


def kind_of(case: Case, came: Outcome) -> str:
    """What came of a case; a wrong answer to a query of a shape that is known for it is no failure yet."""
    name = known(case.query) if came.kind == "wrong" else None
    return came.kind if name is None else f"wrong as {name} is known to be"


def fails(case: Case) -> bool:
    """Whether a case shows a defect that is not known."""
    return kind_of(case, outcome(case)) in FAILING


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


@pytest.mark.timeout(0)
def test_what_is_sure_is_right_and_nothing_is_missing_or_doubled() -> None:
    found, refused = Counter[str](), Counter[str]()
    for n in range(QUERIES):
        case = case_of(f"{SEED}{n}")
        came = outcome(case)
        kind = kind_of(case, came)
        assert kind not in FAILING, described(case)
        found += Counter({kind: 1, "evaluations": came.evaluations, "right answers": came.answers})
        found += Counter({"sure": came.sure, "evaluations complete": came.complete})
        refused[came.why] += came.kind == "refused"
    print(described_counts(found, refused))
    assert found["fine"] > QUERIES / 2
    assert found["sure"] > QUERIES / 2
    assert found["evaluations complete"] > QUERIES / 2
