"""Many sources asked at one instant: work that waits is a generator, which pauses while its requests are on their way.

Nothing runs in a thread of its own here: what waits is resumed by whoever began it, and requests are under way
meanwhile because their transports have threads.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Ready: TypeAlias = Callable[[], bool]
Waiting: TypeAlias = Generator[Ready | None, None, T]
"""It pauses with what tells whether going on would wait no more, where that can be told."""


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


@dataclass(eq=False)
class UnderWay:
    """What one source was asked and has not answered."""

    asking: Asking
    work: Waiting[None]
    ready: Ready | None = None

    @property
    def waits(self) -> bool:
        """Whether going on would wait, as far as that is known."""
        return self.ready is not None and not self.ready()

    def goes_on(self) -> bool:
        """Go on, and wait if need be; tells whether there is more to come."""
        try:
            self.ready = next(self.work)
        except StopIteration:
            return False
        except Exception as error:
            self.asking.failure = error
            return False
        return True


def ask(wanted: Iterable[Asking], now: int) -> None:
    """All of one instant: looked at and decided one after the other, then sent, then waited for together."""
    begun = begin(wanted, now)
    while begun:
        begun = [one for one in begun if one.goes_on()]


def begin(wanted: Iterable[Asking], now: int) -> "list[UnderWay]":
    """All of one instant: looked at and decided one after the other, then sent; what is to be waited for."""
    each_once = list(dict.fromkeys(wanted))
    for each in each_once:
        each.failure = None
        _tried(each, each.look, now)
    for each in each_once:
        if each.failure is None:
            _tried(each, each.decide, now)
    begun = [UnderWay(each, each.asking(now)) for each in each_once if each.failure is None]
    return [one for one in begun if one.goes_on()]


def _tried(each: Asking, step: Callable[[int], None], now: int) -> None:
    try:
        step(now)
    except Exception as error:
        each.failure = error


def finished(work: Waiting[T]) -> T:
    """What comes of a work that nothing else is done beside."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
