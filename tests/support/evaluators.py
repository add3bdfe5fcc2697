"""One query on both evaluators: what both must say alike."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from pyoxigraph import Quad, Triple

from freshkeeper.maintenance.engine.columns import dictionary
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run

Elements = Sequence[tuple[int, Triple]]


def results(
    text: str, kind: str, streams: Mapping[str, Elements], graphs: Mapping[str, Iterable[Quad]], **more: Any
) -> list[Result]:
    """Every evaluation of a query."""
    query = build(parse(text), graphs, evaluator=EvaluatorKind(kind))
    return list(run(query, streams, **more))


def said(found: Iterable[Result]) -> list[tuple[Any, ...]]:
    """What two evaluators must say alike: instants, windows, answers as bags, how fresh and how old they are."""
    return [
        (
            one.t,
            sorted(one.windows.items()),
            one.variables,
            Counter(
                (answer, round(f.probability, 9), f.age) for answer, f in zip(one.answers, _fresh(one), strict=True)
            ),
            one.errors,
        )
        for one in found
    ]


SWEEP = Dictionary.sweep


def swept(ids: Dictionary) -> bool:
    """Sweep also where it is not worth it; whether any id was freed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dictionary, "SWEEP_FROM_SPELLINGS", -1)
        ids._left = (-ids.spellings.count, -1)
        before = len(ids)
        SWEEP(ids)
    return len(ids) < before


def _fresh(one: Result) -> list[Any]:
    return [one.fresh(n) for n in range(len(one.answers))]
