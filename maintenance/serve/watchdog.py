"""Stops evaluations that take too long, and remembers the query in case the process does not survive it.

The watchdog raises EvaluationLimitError in the thread that evaluates, between two instructions of Python. A single call
into compiled code is not interrupted: joins limit their rows before they begin, and queries outside the native engine
run in a process of their own, which is killed.
"""

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.base.files import PRIVATE
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimitError

SUSPECT_AFTER_S = 1.0
"""How long an evaluation may take before the file of the suspect names its query."""
CHECK_INTERVAL_S = 0.25


class TookTooLongError(EvaluationLimitError):
    """An evaluation took longer than the limit of the service; its text is set when it is raised."""

    limit_ms = 0

    def __init__(self, *given: object) -> None:
        message = f"an evaluation took longer than {to_iso(self.limit_ms)}; raise limit to allow more time"
        super().__init__(*given or (message,))


@dataclass(eq=False)
class Watchdog:
    """Watches one thread that evaluates queries, one after the other."""

    suspect: Path | None = None
    """a file that names the query of a long evaluation until it has ended"""
    limit_ms: int | None = None
    query: str = ""
    """the query that is evaluated; empty between evaluations"""
    _since: float = 0.0
    _thread_id: int = 0
    _raised: bool = False
    _noted: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to watch, in a thread of its own."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the watching."""
        self._ended.set()

    @contextmanager
    def watching(self, query: str) -> Iterator[None]:
        """Watch the evaluation of a query in a block, which the thread that calls this runs."""
        self._since, self._thread_id = time.monotonic(), threading.get_ident()
        self.query = query
        try:
            yield
        finally:
            self._finish()

    def take_suspect(self) -> str:
        """Return the query whose evaluation an earlier process did not survive, and forget it; empty if none."""
        if self.suspect is None or not self.suspect.exists():
            return ""
        name = self.suspect.read_text(encoding="utf-8")
        self.suspect.unlink()
        return name

    def interrupt(self) -> None:
        """Stop the evaluation that is under way, if there is one."""
        with self._lock:
            if self.query:
                self._raise()

    def _finish(self) -> None:
        with self._lock:
            self.query = ""
            if self._raised:
                # The error may not have been raised yet: without this it would end the thread somewhere else.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread_id), None)
                self._raised = False
            noted, self._noted = self._noted, False
        if noted and self.suspect is not None:
            self.suspect.unlink(missing_ok=True)

    def _watch(self) -> None:
        while not self._ended.wait(CHECK_INTERVAL_S):
            with self._lock:
                if not self.query:
                    continue
                took_s = time.monotonic() - self._since
                if took_s > SUSPECT_AFTER_S and not self._noted:
                    self._note()
                if self.limit_ms is not None and took_s * 1000 > self.limit_ms:
                    self._raise()

    def _note(self) -> None:
        self._noted = True
        if self.suspect is not None:
            with suppress(OSError):
                self.suspect.touch(PRIVATE)
                self.suspect.write_text(self.query, encoding="utf-8")

    def _raise(self) -> None:
        # Code that swallows errors may lose one: it is raised again at the next check.
        self._raised = True
        TookTooLongError.limit_ms = self.limit_ms or 0
        kind = ctypes.py_object(TookTooLongError)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread_id), kind)
