"""Many sources asked at one instant: work that waits is a generator, which pauses while its requests are on their way.

Nothing runs in a thread of its own here: what waits is resumed by whoever began it, and requests are under way
meanwhile because their transports have threads.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Waiting: TypeAlias = Generator[None, None, T]


class Asking(Protocol):
    """What one instant asks of one source, for all who need it."""

    failure: Exception | None
    """why there is nothing to answer with; who needs it raises it"""

    def look(self, now: int) -> None:
        """See what is needed, and what money for it would bring: others may want the same money."""
        ...

    def decide(self, now: int) -> None:
        """Choose what to ask for; nothing is sent yet."""
        ...

    def asking(self, now: int) -> Waiting[None]:
        """Send it, pause while it is on its way, take in what came."""
        ...


def ask(wanted: Iterable[Asking], now: int) -> None:
    """All of one instant: looked at and decided one after the other, then sent, then waited for together."""
    each_once = list(dict.fromkeys(wanted))
    for each in each_once:
        each.failure = None
        _tried(each, each.look, now)
    for each in each_once:
        if each.failure is None:
            _tried(each, each.decide, now)
    begun = [(each, each.asking(now)) for each in each_once if each.failure is None]
    while begun:
        begun = [(each, work) for each, work in begun if _goes_on(each, work)]


def _tried(each: Asking, step: Callable[[int], None], now: int) -> None:
    try:
        step(now)
    except Exception as error:
        each.failure = error


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
