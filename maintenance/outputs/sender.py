"""What takes answers, each with an id by which whoever gets one twice knows it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.output import NdJson, chunks
from freshkeeper.maintenance.streams.live.feed import Backoff, LostError


@dataclass(frozen=True)
class Answer:
    """One evaluation, as a line of JSON."""

    query: str
    t: int
    line: bytes

    @property
    def id(self) -> str:
        """The same whenever it is sent again."""
        return f"{self.query or 'query'}/{self.t}"


class Output(Protocol):
    """A receiver of answers: a topic, a webhook, a file."""

    @property
    def name(self) -> str:
        """As it may be shown."""

    def put(self, answers: Sequence[Answer]) -> None:
        """All of them, in order; when this returns they are there. LostError: not all are, and later they may be."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(eq=False)
class Sender:
    """Gives answers to an output, again and again until it has them."""

    output: Output
    tell: Callable[[str], None] = field(default=lambda _: None)
    backoff: Backoff = field(default_factory=Backoff)
    stopping: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    failures: int = 0
    failure: str = ""
    """why it does not take any now"""

    def send(self, answers: Sequence[Answer]) -> bool:
        """Whether they are there; they are not if it was stopped before."""
        while True:
            try:
                self.output.put(answers)
            except LostError as error:
                self.failures += 1
                if self.failure != str(error):
                    self.tell(f"answers do not reach {self.output.name}: {error}; trying again")
                self.failure = str(error)
                if self.stopping.wait(self.backoff.next()):
                    return False
            else:
                self.sent += len(answers)
                if self.failure:
                    self.tell(f"answers reach {self.output.name} again")
                self.failure = ""
                self.backoff.reset()
                return True


@dataclass(eq=False)
class SentOut:
    """The answers of a run, to an output in place of standard output."""

    sender: Sender
    empty: bool = True
    _writer: NdJson = field(default_factory=NdJson)

    def put(self, result: Result) -> None:
        """All of one evaluation; when this returns, it is out."""
        if self.empty or result.answers:
            line = b"".join(map(bytes, chunks(self._writer, result)))
            self.sender.send([Answer(result.query, result.t, line)])
