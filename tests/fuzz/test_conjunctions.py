"""Random conjunctive queries give the same on both evaluators.

    make fuzz FUZZ_SEED=day

runs 10,000 of them, others with every FUZZ_SEED. A failure prints its seed and the least input that shows it.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from conjunctions import Conjunction, conjunction
from evaluators import results, said

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.engine.native.native_plan import plan_of
from freshkeeper.maintenance.engine.native.plan_head import NotNativeError
from freshkeeper.maintenance.query.parser import parse

QUERIES = int(os.environ.get("FUZZ_QUERIES", "1500")) // 10
SEED = os.environ.get("FUZZ_SEED", "")
Item = TypeVar("Item")


def kind(case: Conjunction) -> str:
    """Whether there is a plan."""
    try:
        plan_of(parse(case.text), case.graphs)
    except NotNativeError:
        return "snapshot"
    except InputError:
        return "no query"
    return "native"


def answered(case: Conjunction, evaluator: str) -> list[tuple[object, ...]]:
    """What an evaluator says of a case."""
    wanted = {window.stream for window in parse(case.text).windows}
    fed = {name: elements for name, elements in case.streams.items() if name in wanted}
    return said(results(case.text, evaluator, fed, case.graphs, drain=case.drain, delay=case.delay))


def differs(case: Conjunction) -> bool:
    """Whether the evaluators disagree."""
    return answered(case, "native") != answered(case, "snapshot")


def smaller(case: Conjunction, fails: Callable[[Conjunction], bool]) -> Conjunction:
    """With no element and no quad that it does not take to fail."""
    for table in ("streams", "graphs"):
        for name in getattr(case, table):
            case = _least(case, table, name, fails)
    return case


def _least(case: Conjunction, table: str, name: str, fails: Callable[[Conjunction], bool]) -> Conjunction:
    for n in reversed(range(len(getattr(case, table)[name]))):
        items = getattr(case, table)[name]
        tried = replace(case, **{table: getattr(case, table) | {name: without(items, n)}})
        case = tried if fails(tried) else case
    return case


def without(items: Sequence[Item], n: int) -> Sequence[Item]:
    """All but one of them."""
    return [*items[:n], *items[n + 1 :]]


def described(case: Conjunction) -> str:
    """All that it takes to see it again."""
    least = smaller(case, differs)
    pairs = zip(answered(least, "native"), answered(least, "snapshot"), strict=False)
    lines = [f"  native   {one}\n  snapshot {other}" for one, other in pairs if one != other]
    return "\n".join([f"seed {case.seed!r}: {case.text}", f"{least.streams}", f"{least.graphs}", *lines[:1]])


def of(count: int) -> Iterator[Conjunction]:
    """So many cases."""
    return (conjunction(f"{SEED}{n}") for n in range(count))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_both_evaluators_answer_the_same_bags_at_the_same_instants() -> None:
    found = Counter[str]()
    for case in of(QUERIES):
        which = kind(case)
        found[which] += 1
        if which == "native":
            assert not differs(case), described(case)
            evaluations = [bag for _, _, _, bag, _ in answered(case, "native")]
            full: list[Counter[object]] = [bag for bag in evaluations if isinstance(bag, Counter) and bag]
            found += Counter({"evaluations": len(evaluations), "with answers": len(full)})
            found += Counter({"answers": sum(bag.total() for bag in full), "queries with answers": bool(full)})
    print(f"\nseeds {SEED}0..{SEED}{QUERIES - 1}:", ", ".join(f"{count} {what}" for what, count in found.items()))
    assert found["native"] > QUERIES / 2
    assert found["queries with answers"] > 0.6 * found["native"]
    assert found["with answers"] > 0.25 * found["evaluations"]


def test_a_case_that_fails_is_made_small() -> None:
    case = next(each for each in of(20) if kind(each) == "native" and len(each.streams["urn:s0"]) > 3)
    wanted = case.streams["urn:s0"][2]
    assert smaller(case, lambda each: wanted in each.streams["urn:s0"]).streams["urn:s0"] == [wanted]
