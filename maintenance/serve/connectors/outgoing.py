"""Outputs of a service: answers are read from the answer files and sent in order, at least once.

The position of an output is written after it has taken answers. A service that crashes in between sends the last
answers again, with the same ids.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from freshkeeper.maintenance.base.files import make_directory, writing
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.outputs.sender import AnswerLine, AnswerSender
from freshkeeper.maintenance.outputs.webhook import Webhook
from freshkeeper.maintenance.serve.answer_tail import AnswerTail
from freshkeeper.maintenance.serve.service import QueryService

MAX_BATCH = 500
"""Answers that are sent at once."""
POLL_INTERVAL_S = 0.5
"""How often an output looks for new queries."""
STOP_TIMEOUT_S = 5.0


@dataclass(eq=False)
class Outgoing:
    """Sends answers to one output, in a thread of its own."""

    name: str
    service: QueryService
    sender: AnswerSender
    directory: Path
    """where its position is written"""
    queries: frozenset[str] = frozenset()
    """the queries whose answers it sends; empty: all"""
    _tails: dict[str, AnswerTail] = field(default_factory=dict)
    _listening: dict[str, Callable[[int, bytes], None]] = field(default_factory=dict)
    _wakeup: threading.Event = field(default_factory=threading.Event)
    _ending: bool = False
    """whether it stops once all answers are sent"""

    def __post_init__(self) -> None:
        with writing(self.directory):
            make_directory(self.directory)
        self._path = self.directory / f"{self.name}.json"
        if self._path.exists():
            self._sent: dict[str, int] = json.loads(self._path.read_text())
        else:  # a new output begins with the answers that come from now on
            known = list(self.service.queries.all)
            answered = {name: self.service.queries.progress(name).answered for name in known}
            self._sent = {name: t for name, t in answered.items() if t is not None}
            self._write_position()
        self._thread = threading.Thread(target=self._live, name=f"output {self.name}", daemon=True)

    @property
    def dead_letters(self) -> int:
        """The number of answers that went to the file of dead letters."""
        return self.sender.output.dead if isinstance(self.sender.output, Webhook) else 0

    def start(self) -> None:
        """Begin to send."""
        if isinstance(self.sender.output, Webhook):
            self.sender.output.stopping = self.sender.stopping
        self._thread.start()

    def stop(self, patience: float = STOP_TIMEOUT_S) -> None:
        """Send what is left, if that does not take longer than `patience` seconds, and stop."""
        self._ending = True
        self._wakeup.set()
        self._thread.join(patience)
        self.sender.stopping.set()
        self._thread.join(1)
        self.sender.output.close()
        for tail in self._tails.values():
            tail.close()

    def _live(self) -> None:
        while not self.sender.stopping.is_set():
            try:
                self._work()
                return
            except Exception as error:
                self.sender.failure = error_text(error)
                LOGGER.error("the output %s: %s", self.name, error_text(error))
                self.sender.stopping.wait(1)

    def _work(self) -> None:
        while not self.sender.stopping.is_set():
            ending = self._ending
            self._wakeup.clear()
            self._follow_queries()
            if not self._send_next():
                if ending:
                    return
                self._wakeup.wait(POLL_INTERVAL_S)

    def _follow_queries(self) -> None:
        """Begin with queries that are new, and drop deleted ones."""
        there = [name for name in list(self.service.queries.all) if not self.queries or name in self.queries]
        answers = self.service.queries.answers
        for name in there:
            if name not in self._tails:
                self._tails[name] = answers.tail(name, self._sent.get(name, -1))
                self._listening[name] = lambda *_: self._wakeup.set()
                answers.listen(name, self._listening[name])
        for name in self._tails.keys() - there:
            self._tails.pop(name).close()
            answers.leave(name, self._listening.pop(name))
            self._sent.pop(name, None)

    def _send_next(self) -> bool:
        """Send the next answers of every query; return whether there were any."""
        moved = False
        for name, tail in self._tails.items():
            lines = tail.read(MAX_BATCH)
            if lines and self.sender.send([AnswerLine(name, t, line) for t, line in lines]):
                self._sent[name] = lines[-1][0]
                self._write_position()
                moved = True
        return moved

    def _write_position(self) -> None:
        with writing(self._path):
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self._sent))
            new.replace(self._path)
