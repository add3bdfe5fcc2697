"""One query on both evaluators: what both must say alike."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyoxigraph import Quad, Triple

from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.rsp.engine import run
from freshkeeper.maintenance.rsp.r2s import Result
from freshkeeper.maintenance.service_join.build import EvaluatorKind, build

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


def _fresh(one: Result) -> list[Any]:
    return [one.fresh(n) for n in range(len(one.answers))]
