"""A few hostile inputs of every kind, and a fuzzer that sees what it is there to see; `make fuzz` takes 50,000."""

import pytest
from fuzz import fuzz, fuzz_all
from targets import TARGETS
from worker import made

SEED = 1
FEW = 25
"""Inputs of a kind: the time is mostly that of starting."""
KINDS = list(TARGETS)


@pytest.mark.slow
def test_hostile_bytes_are_taken_or_refused_in_words_and_end_nothing() -> None:
    found = fuzz_all(FEW * len(KINDS), SEED, KINDS)
    assert [(each.kind, each.inputs) for each in found] == [(kind, FEW) for kind in KINDS]
    failures = [failure for each in found for failure in each.failures]
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "why"),
    [("dies", "signal 11"), ("raises", "ValueError: third"), ("hangs", "no end after"), ("grows", "MB")],
)
def test_an_input_that_ends_a_worker_is_named_and_the_others_are_fed(kind: str, why: str) -> None:
    found = fuzz(kind, SEED, 10, 14, patience=3 if kind == "hangs" else 30)
    (failure,) = found.failures
    assert failure.number in (12, 13)  # memory is seen with the next one
    assert why in failure.why
    assert f"--show {kind} {SEED} {failure.number}" in str(failure)


def test_the_same_seed_makes_the_same_input() -> None:
    assert [made("lines", 7, n) for n in range(50)] == [made("lines", 7, n) for n in range(50)]
    assert len({made("lines", 7, n) for n in range(50)}) > 25
