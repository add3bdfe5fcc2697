"""Many sources asked at one instant: work that waits is a generator, which pauses while its requests are on their way.

Nothing runs in a thread of its own here: what waits is resumed by whoever began it, and requests are under way
meanwhile because their transports have threads.
"""

from collections.abc import Generator, Iterable
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Waiting: TypeAlias = Generator[None, None, T]


class Asking(Protocol):
    """What one instant asks of one source, for all who need it."""

    failure: Exception | None
    """why there is nothing to answer with; who needs it raises it"""

    def decide(self, now: int) -> None:
        """Choose what to ask for; nothing is sent yet."""
        ...

    def asking(self, now: int) -> Waiting[None]:
        """Send it, pause while it is on its way, take in what came."""
        ...


def ask(wanted: Iterable[Asking], now: int) -> None:
    """All of one instant: decided one after the other, then sent, then waited for together."""
    begun = []
    for each in dict.fromkeys(wanted):
        each.failure = None
        try:
            each.decide(now)
        except Exception as error:
            each.failure = error
        else:
            begun.append((each, each.asking(now)))
    while begun:
        begun = [(each, work) for each, work in begun if _goes_on(each, work)]


def _goes_on(each: Asking, work: Waiting[None]) -> bool:
    try:
        next(work)
    except StopIteration:
        return False
    except Exception as error:
        each.failure = error
        return False
    return True


def finished(work: Waiting[T]) -> T:
    """What comes of a work that nothing else is done beside."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
