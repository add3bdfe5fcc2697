"""Random queries over annotated data: our client has the rows of what holds, whatever is asked."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
import query_runner
from algebra import Service, walk
from annotated_worlds import START, STYLES, Time, annotated, bag, evaluated, source_of, true_rows
from pyoxigraph import Quad, Triple
from query_generator import case_of
from query_runner import outcome
from query_runner import quads as facts

from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.sources.fragments.annotation_style import TimedTriple, TimeEncoding

LASTS = 60_000


class Followed(query_runner.Remote):
    """A remote of which some predicates have times, and were others before; each query is asked of it by `follow`."""

    asked = 0

    def __call__(self, query: str, now: int) -> Any:
        """One query, as it is answered by the whole data."""
        if "LIMIT" not in query:
            style = STYLES[Followed.asked % len(STYLES)]
            static, held = _parted(facts(self.case.world.remote(self.name, now)), Random(f"{query}{now}"))
            time = Time()
            history = style.timing is not TimeEncoding.EXPIRATION and Followed.asked % 2 == 0
            source = source_of(annotated(static, held, style, history), time, style, per_page=3)
            source.holding = False
            found = evaluated(source, query)
            assert bag(found) == bag(true_rows(static, held, time.ms, query)), (query, now, style)
            Followed.asked += 1
        return super().__call__(query, now)


def _parted(quads: Sequence[Quad], random: Random) -> tuple[list[Quad], list[TimedTriple]]:
    """What is static, and what holds now or did before: values of each other."""
    predicates = sorted({quad.predicate for quad in quads}, key=str)
    changing = {predicate for predicate in predicates if random.random() < 0.6}
    static = [quad for quad in quads if quad.predicate not in changing]
    held = []
    for quad in quads:
        if quad.predicate in changing:
            other = random.choice(quads)
            held.append(TimedTriple(quad.triple, START - LASTS, START + LASTS))
            held.append(
                TimedTriple(Triple(quad.subject, quad.predicate, other.object), START - 3 * LASTS, START - 2 * LASTS)
            )
            held.append(
                TimedTriple(Triple(other.subject, quad.predicate, quad.object), START + LASTS, START + 2 * LASTS)
            )
    return static, held


@pytest.mark.slow
def test_whatever_the_engine_asks_a_remote_is_answered_of_what_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_runner, "Remote", Followed)
    Followed.asked = 0
    for n in range(250):
        case = case_of(f"followed{n}")
        if any(isinstance(each, Service) for each in walk(case.query)):
            assert outcome(case, EvaluatorKind.SNAPSHOT).kind not in ("wrong", "crash"), case.seed
    assert Followed.asked > 200
