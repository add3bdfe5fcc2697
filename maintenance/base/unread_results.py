"""Solutions of the SPARQL library that nobody has read yet: only the thread that asked for them may let them go.

If another thread drops them, as the garbage collector may, the library complains and keeps them for ever. So their own
thread keeps them under a number, and drops those that are not needed with its next query or when it ends.
"""

import threading
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from pyoxigraph import QuerySolutions


class _Solutions(threading.local):
    def __init__(self) -> None:
        self.solutions: dict[int, QuerySolutions] = {}
        self.gone: deque[int] = deque()


_here, _numbers = _Solutions(), count()


@dataclass(eq=False)
class Unread:
    """Solutions that were not read yet, by their number."""

    number: int
    gone: "deque[int]" = field(repr=False)

    @classmethod
    def of(cls, solutions: QuerySolutions) -> "Unread":
        """Keep solutions until they are taken, or this object is deleted."""
        while _here.gone:
            _here.solutions.pop(_here.gone.popleft(), None)
        unread = cls(next(_numbers), _here.gone)
        _here.solutions[unread.number] = solutions
        return unread

    def take(self) -> QuerySolutions:
        """Return the solutions, once, in the thread that asked for them."""
        return _here.solutions.pop(self.number)

    def __del__(self) -> None:
        """Let the thread that asked for the solutions drop them, whichever thread deletes this object."""
        self.gone.append(self.number)


@contextmanager
def read_here() -> Iterator[None]:
    """Clear the frames of an error that leaves the block, so that it keeps no solutions alive."""
    try:
        yield
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        raise
