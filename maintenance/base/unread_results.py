"""Solutions of the SPARQL library that nobody has read yet: only the thread that asked for them may let them go.

Dropped by another one, as the collector of garbage does it, the library complains and keeps them for ever. So they are
kept by their own thread, under a number, and what the number's holder has let go goes with the next question or with
the thread.
"""

import threading
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from pyoxigraph import QuerySolutions


class _Held(threading.local):
    def __init__(self) -> None:
        self.solutions: dict[int, QuerySolutions] = {}
        self.gone: deque[int] = deque()


_held, _numbers = _Held(), count()


@dataclass(eq=False)
class Unread:
    """Solutions by their number."""

    number: int
    gone: "deque[int]" = field(repr=False)

    @classmethod
    def of(cls, solutions: QuerySolutions) -> "Unread":
        """Hold them until they are taken, or this is let go."""
        while _held.gone:
            _held.solutions.pop(_held.gone.popleft(), None)
        unread = cls(next(_numbers), _held.gone)
        _held.solutions[unread.number] = solutions
        return unread

    def take(self) -> QuerySolutions:
        """The solutions, once, in the thread that asked for them."""
        return _held.solutions.pop(self.number)

    def __del__(self) -> None:
        """Whoever does this, their own thread lets them go."""
        self.gone.append(self.number)


@contextmanager
def read_here() -> Iterator[None]:
    """An error that leaves this block takes along nothing of the library's that was being read."""
    try:
        yield
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        raise
