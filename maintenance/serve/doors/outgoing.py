"""Answers of a service that go somewhere by themselves: from its files, each in order, at least once.

How far each output has come is noted when it has taken answers. A service that was killed in between sends the last
ones again, with the same ids.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from freshkeeper.maintenance.base.files import make_directory, writing
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.outputs.sender import Answer, Sender
from freshkeeper.maintenance.outputs.webhook import Webhook
from freshkeeper.maintenance.serve.doors.answer_tail import AnswerTail
from freshkeeper.maintenance.serve.service import Service

MOST = 500
"""Answers at once."""
LOOK = 0.5
"""Seconds before it is looked for new queries."""
PATIENCE = 5.0


@dataclass(eq=False)
class Outgoing:
    """One output, in a thread of its own."""

    name: str
    service: Service
    sender: Sender
    directory: Path
    """for how far it is"""
    queries: frozenset[str] = frozenset()
    """whose answers; empty: of all"""
    _tails: dict[str, AnswerTail] = field(default_factory=dict)
    _listening: dict[str, Callable[[int, bytes], None]] = field(default_factory=dict)
    _news: threading.Event = field(default_factory=threading.Event)
    _ending: bool = False
    """what is there is sent, and no more comes"""

    def __post_init__(self) -> None:
        with writing(self.directory):
            make_directory(self.directory)
        self._path = self.directory / f"{self.name}.json"
        if self._path.exists():
            self._sent: dict[str, int] = json.loads(self._path.read_text())
        else:  # what was answered before there was this output stays where it is
            known = list(self.service.queries.all)
            answered = {name: self.service.queries.progress(name).answered for name in known}
            self._sent = {name: t for name, t in answered.items() if t is not None}
            self._note()
        self._thread = threading.Thread(target=self._live, name=f"output {self.name}", daemon=True)

    @property
    def dead_letters(self) -> int:
        """Answers that nobody took."""
        return self.sender.output.dead if isinstance(self.sender.output, Webhook) else 0

    def start(self) -> None:
        """Begin to send, in a thread of its own."""
        if isinstance(self.sender.output, Webhook):
            self.sender.output.stopping = self.sender.stopping
        self._thread.start()

    def stop(self, patience: float = PATIENCE) -> None:
        """What has been answered is sent, if that does not take long."""
        self._ending = True
        self._news.set()
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
            self._news.clear()
            self._look()
            if not self._moved():
                if ending:
                    return
                self._news.wait(LOOK)

    def _look(self) -> None:
        """Queries that are new, or no more."""
        there = [name for name in list(self.service.queries.all) if not self.queries or name in self.queries]
        answers = self.service.queries.answers
        for name in there:
            if name not in self._tails:
                full, path = answers.files(name)
                self._tails[name] = AnswerTail(path, full, self._sent.get(name, -1))
                self._listening[name] = lambda *_: self._news.set()
                answers.listen(name, None, self._listening[name])
        for name in self._tails.keys() - there:
            self._tails.pop(name).close()
            answers.leave(name, self._listening.pop(name))
            self._sent.pop(name, None)

    def _moved(self) -> bool:
        """Whether anything was sent."""
        moved = False
        for name, tail in self._tails.items():
            if (lines := tail.read(MOST)) and self.sender.send([Answer(name, t, line) for t, line in lines]):
                self._sent[name] = lines[-1][0]
                self._note()
                moved = True
        return moved

    def _note(self) -> None:
        with writing(self._path):
            made = self._path.with_suffix(".new")
            made.write_text(json.dumps(self._sent))
            made.replace(self._path)
