"""Answers on their way to receivers, each with an id by which a receiver recognises duplicates."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.outputs.formats import NdJson, chunks
from freshkeeper.maintenance.streams.live.feed import Backoff, LostError


@dataclass(frozen=True)
class AnswerLine:
    """The result of one evaluation as a line of JSON."""

    query: str
    t: int
    line: bytes

    @property
    def id(self) -> str:
        """The id, which is the same whenever the answer is sent again."""
        return f"{self.query or 'query'}/{self.t}"


class Receiver(Protocol):
    """A receiver of answers: a topic, a webhook, a file."""

    @property
    def name(self) -> str:
        """The address for messages, without secrets."""

    def put(self, answers: Sequence[AnswerLine]) -> None:
        """Deliver all answers in order; raise LostError if not all are delivered and another attempt may succeed."""

    def close(self) -> None:
        """Release all resources."""


@dataclass(eq=False)
class AnswerSender:
    """A sender that repeats answers until the receiver has them."""

    output: Receiver
    notify: Callable[[str], None] = field(default=lambda _: None)
    backoff: Backoff = field(default_factory=Backoff)
    stopping: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    failures: int = 0
    failure: str = ""
    """why the receiver accepts none now; empty if it does"""

    def send(self, answers: Sequence[AnswerLine]) -> bool:
        """Send answers; return False if the sender was stopped before they were delivered."""
        while True:
            try:
                self.output.put(answers)
            except LostError as error:
                self.failures += 1
                if self.failure != str(error):
                    self.notify(f"answers do not reach {self.output.name}: {error}; trying again")
                self.failure = str(error)
                if self.stopping.wait(self.backoff.next()):
                    return False
            else:
                self.sent += len(answers)
                if self.failure:
                    self.notify(f"answers reach {self.output.name} again")
                self.failure = ""
                self.backoff.reset()
                return True


@dataclass(eq=False)
class SenderSink:
    """The results of a run, sent to a receiver instead of standard output."""

    sender: AnswerSender
    empty: bool = True
    _writer: NdJson = field(default_factory=NdJson)

    def put(self, result: Result) -> None:
        """Send one result; when this returns, the receiver has it."""
        if self.empty or result.answers:
            line = b"".join(map(bytes, chunks(self._writer, result)))
            self.sender.send([AnswerLine(result.query, result.t, line)])
