"""Threads that run lookups, and an alarm that wakes the engine.

The threads are daemons: a process never waits for a lookup under way when it ends. They begin when they are first
needed, and begin again in a forked child, where no thread but the forking one lives on.
"""

import logging
import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread
from typing import Any

LOGGER = logging.getLogger("freshkeeper")
IDLE_S = 30.0
"""A thread without work ends after so long."""


@dataclass(eq=False)
class Workers:
    """A pool of up to `limit` daemon threads that run calls in their order."""

    limit: int
    name: str
    _calls: "queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]" = field(
        default_factory=queue.SimpleQueue
    )
    _threads: int = 0
    _busy: int = 0
    _lock: Lock = field(default_factory=Lock)

    def submit(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Run a call as soon as a thread is free; return its future."""
        future: Future[Any] = Future()
        with self._lock:
            self._busy += 1
            if self._busy > self._threads and self._threads < self.limit:
                self._threads += 1
                Thread(target=self._work, name=f"{self.name}-{self._threads}", daemon=True).start()
        self._calls.put((future, call, arguments))
        return future

    def _work(self) -> None:
        while True:
            try:
                task = self._calls.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._busy >= self._threads:
                        continue  # a call is on its way into the queue
                    self._threads -= 1
                return
            assert task is not None
            future, call, arguments = task
            try:
                result = call(*arguments)
            except BaseException as error:  # SystemExit and gevent's timeouts, too: they fail their own call only
                self._finish()
                _report(future.set_exception, error)
            else:
                self._finish()
                _report(future.set_result, result)
            del future, call, arguments, task  # an idle thread keeps nothing alive

    def _finish(self) -> None:
        with self._lock:
            self._busy -= 1


def _report(deliver: Callable[[Any], None], outcome: Any) -> None:
    try:
        deliver(outcome)
    except BaseException:
        LOGGER.exception("taking in the reply of a lookup failed")


@dataclass(eq=False)
class Alarm:
    """Calls a function at the earliest of the times that were set, in a daemon thread."""

    ring: Callable[[], None]
    name: str
    _at: float | None = None
    _thread: Thread | None = None
    _changed: Condition = field(default_factory=Condition)

    def set(self, after: float) -> None:
        """Ring in so many seconds at the latest."""
        at = time.monotonic() + after
        with self._changed:
            if self._at is not None and self._at <= at:
                return
            self._at = at
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._at is None and not self._changed.wait(IDLE_S) and self._at is None:
                    self._thread = None
                    return
                wait = self._at - time.monotonic() if self._at is not None else 0.0
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                self._at = None
            try:
                self.ring()
            except Exception:
                LOGGER.exception("maintenance of an enricher failed")
