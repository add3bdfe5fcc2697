"""An engine whose evaluations wait for their sources beside each other: a slow one holds back its own query alone.

An evaluation whose sources have not answered is in the air: its query's windows stay as they are, elements that come
wait, and it is due again when it has landed. All others go on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import ENDLESS, Engine
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.fetching.asking import UnderWay, begin

MOST_UNSWEPT = 1_000
"""Times that evaluations in the air keep ids that nobody has any more from being freed, before they are waited for."""


@dataclass(eq=False)
class InTheAir:
    """An evaluation that waits for its sources."""

    query: ContinuousQuery
    now: int
    under_way: list[UnderWay]

    def lands(self, wait: bool) -> bool:
        """Whether its sources have answered; with `wait`, they have when this returns."""
        while self.under_way and (wait or not any(one.waits for one in self.under_way)):
            self.under_way = [one for one in self.under_way if one.goes_on()]
        return not self.under_way


@dataclass(eq=False)
class OverlappingEngine(Engine):
    """Evaluations of one query come one after the other, those of several as their sources answer."""

    in_the_air: dict[ContinuousQuery, InTheAir] = field(default_factory=dict)
    _unswept: int = 0

    def waits(self, query: ContinuousQuery | None = None) -> bool:
        """Whether a query, or any, waits for its sources."""
        return bool(self.in_the_air) if query is None else query in self.in_the_air

    def land(self) -> Iterator[Result]:
        """What sources have answered since, and what is due after it."""
        yield from self._landed()
        yield from self.advance(self.inputs.watermark())

    def settle(self) -> Iterator[Result]:
        """Wait for all that is in the air."""
        yield from self._landed(wait=True)

    def _evaluate_due(self, due: Callable[[ContinuousQuery], int | None], until: int = ENDLESS) -> Iterator[Result]:
        """Evaluations before an instant; sources of one instant are asked together."""
        yield from self._landed()
        while (
            waiting := self._next_evaluation(lambda query: None if query in self.in_the_air else due(query), until)
        ) is not None:
            now, queries = waiting
            asked = {query: list(self._prepare(query, now)) for query in queries}
            under_way = begin([one for each in asked.values() for one in each], now)
            for query in queries:
                if mine := [one for one in under_way if one.asking in asked[query]]:
                    self.in_the_air[query] = InTheAir(query, now, mine)
                else:
                    yield from self._answer(query, now)
            yield from self._landed()

    def _landed(self, wait: bool = False) -> Iterator[Result]:
        for one in list(self.in_the_air.values()):
            if one.lands(wait):
                del self.in_the_air[one.query]
                yield from self._answer(one.query, one.now)

    def _sweep(self) -> Iterator[Result]:
        """Free ids that nobody has; what is in the air may have some."""
        if self.in_the_air and self._unswept < MOST_UNSWEPT:
            self._unswept += 1
            return
        yield from self._landed(wait=True)
        self._unswept = 0
        yield from super()._sweep()
