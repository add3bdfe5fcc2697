"""An event loop in a thread of its own, for asynchronous sources of callers that have no loop."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any

_LOCK = Lock()
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
"""by process: a thread does not survive a fork"""


def submit_to_background_loop(fetch: Callable[[Any], Any], request: Any) -> "Future[Any]":
    """Run `await fetch(request)` on the loop that all sources of this process share."""
    return asyncio.run_coroutine_threadsafe(fetch(request), _background_loop())


def _background_loop() -> asyncio.AbstractEventLoop:
    with _LOCK:
        loop = _LOOPS.get(os.getpid())
        if loop is None:
            _LOOPS.clear()
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="sources", daemon=True).start()
        return loop
