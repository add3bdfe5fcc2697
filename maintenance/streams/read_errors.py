"""Errors of elements that cannot be read, with their places, and what happens with them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from freshkeeper.maintenance.base.errors import InputError


class StreamError(InputError):
    """Raised for an element that cannot be read, with the stream, the place in it and the problem."""

    def __init__(self, stream: str, place: int | str, problem: str) -> None:
        """Place `problem` at a line (from 1) of a stream, or at a place in words."""
        if isinstance(place, int):
            place = f"line {place}"
        super().__init__(f"{stream}, {place}: {problem}")


class OnError(StrEnum):
    """The reaction to an element that cannot be read."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(eq=False)
class ReadErrors:
    """The elements that could not be read: the first ends the run, or all are counted and reported."""

    policy: OnError = OnError.FAIL
    count: int = 0
    notify: Callable[[str], None] = field(default=lambda _: None)

    def report(self, error: StreamError) -> None:
        """Raise the error, or count and report it."""
        if self.policy is OnError.FAIL:
            raise error
        self.count += 1
        self.notify(f"{error} (skipped)")
