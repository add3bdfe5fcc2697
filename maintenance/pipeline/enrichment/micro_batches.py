"""One micro-batch after the other, each of them once: the order of steps that makes a kill harmless.

    read ─▶ for every evaluation that is due: intend ─▶ fetch ─▶ record ─▶ then: answer ─▶ write ─▶ commit

Killed anywhere, the query gets the same micro-batch again and starts from the snapshot before it. All up to `commit`
is a function of that snapshot, of the elements and of what the log has of the source, so it comes out the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from freshkeeper.maintenance.evaluation import Record, Refreshes
from freshkeeper.maintenance.pipeline.enrichment.batch_arrivals import Arrivals, Tabular
from freshkeeper.maintenance.pipeline.enrichment.batch_store import Store
from freshkeeper.maintenance.pipeline.enrichment.due import Due
from freshkeeper.maintenance.pipeline.enrichment.once import Once
from freshkeeper.policies.errors import ConfigError

Answered = TypeVar("Answered")
Given = TypeVar("Given", covariant=True)
Taken = TypeVar("Taken", contravariant=True)


@dataclass(frozen=True, eq=False)
class Step(Generic[Given]):
    """What one evaluation did and answered."""

    record: Record
    refreshes: Refreshes
    answers: Given


class Keeper(Protocol[Given]):
    """Keeps the view and evaluates; all its state is pickled with it."""

    def arrive(self, counts: Tabular, batch: int) -> Arrivals:
        """The elements of a micro-batch, counted."""
        ...

    def evaluate(self, k: int, arrivals: Sequence[Arrivals]) -> Step[Given]:
        """One evaluation, with the elements that are new in it."""
        ...

    def settle(self) -> Callable[[], None]:
        """The end of a micro-batch: what is left to do once it is committed."""
        ...


class Write(Protocol[Taken]):
    """Takes the steps of one micro-batch; called again with the same steps after a kill."""

    def __call__(self, steps: Sequence[Step[Taken]], batch: int) -> None:
        """Write the answers under the number of the micro-batch, in place of what is there under it."""
        ...


@dataclass(eq=False)
class State(Generic[Answered]):
    """What is known after a micro-batch."""

    due: Due
    keeper: Keeper[Answered]


@dataclass(eq=False)
class Batches(Generic[Answered]):
    """The query's state between micro-batches, in memory and on the disk."""

    store: Store
    source: Once
    make: Callable[[], State[Answered]]
    """the state before the first micro-batch"""
    write: Write[Answered]
    reached: Callable[[str], None]
    """told of every step that is done, for logs and for tests that kill"""
    _now: tuple[int, State[Answered]] | None = None

    def process(self, batch: int, counts: Tabular) -> None:
        """One micro-batch; nothing where it was committed before."""
        last, state = self._state()
        if batch == last:
            return
        if batch != last + 1:
            raise ConfigError(
                f"the state in {self.store.place} is that of micro-batch {last}, and this is micro-batch {batch}: "
                "state and checkpoint belong together, so keep both or remove both"
            )
        self._now = None  # until it is committed, what is in memory is of no use after an error
        self.source.begin(self.store.log(batch))
        state.due.take(state.keeper.arrive(counts, batch))
        self.reached("read")
        steps = [state.keeper.evaluate(k, arrivals) for k, arrivals in state.due.evaluations()]
        self.reached("answered")
        if steps:
            self.write(steps, batch)
        self.reached("written")
        afterwards = state.keeper.settle()
        self.store.save(batch, state)
        self._now = batch, state
        self.store.tell({"batch": batch, **state.due.progress()})
        self.reached("committed")
        afterwards()

    @property
    def state(self) -> State[Answered]:
        """The state after the last micro-batch that was committed."""
        return self._state()[1]

    def _state(self) -> tuple[int, State[Answered]]:
        return self._now or self.store.load() or (-1, self.make())
