"""Limits of connections, which uvicorn lacks: their number, and the time they may take to send a request or read.

Idle connections never keep others out: where there is no room, the one that has waited longest without a request goes.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT_S = 10.0
"""How long a connection may be open without a request, and how long the head of a request may take."""
WRITE_TIMEOUT_S = 60.0
"""How long a client may read nothing of a response that waits for it."""
RESERVED_FILES = 96
"""Open files that connections leave to the log, the state, answer files and sources."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(eq=False)
class ConnectionLimits:
    """The open connections of a server, in all and by address."""

    most: int
    most_per_address: int
    request_timeout_s: float = REQUEST_TIMEOUT_S
    write_timeout_s: float = WRITE_TIMEOUT_S
    refused: int = 0
    """connections that were refused because all others had a request under way"""
    open: "dict[LimitedProtocol, str]" = field(default_factory=dict)
    """connections with their addresses"""
    waiting: "dict[LimitedProtocol, None]" = field(default_factory=dict)
    """connections without a request under way, the one that has waited longest first"""
    _by_address: Counter[str] = field(default_factory=Counter)

    @classmethod
    def within(cls, most: int, most_per_address: int) -> "ConnectionLimits":
        """Return limits that fit the open files of this process, whose own limit is raised as far as permitted."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if hard != resource.RLIM_INFINITY:
            most = min(most, max(hard - RESERVED_FILES, hard // 2))
        return cls(most, min(most, most_per_address))

    def admit(self, one: "LimitedProtocol") -> bool:
        """Count a new connection; return False if there is no room, not even that of an idle one."""
        address = one.client[0] if one.client else ""
        if self._by_address[address] >= self.most_per_address and not self._drop_idle(address):
            self.refused += 1
            return False
        if len(self.open) >= self.most and not self._drop_idle(None):
            self.refused += 1
            return False
        self.open[one] = address
        self._by_address[address] += 1
        return True

    def leave(self, one: "LimitedProtocol") -> None:
        """Count a connection no more."""
        self.waiting.pop(one, None)
        address = self.open.pop(one, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _drop_idle(self, address: str | None) -> bool:
        """Close the connection that has waited longest, of one address or of any; False if none waits."""
        oldest = next((one for one in self.waiting if address in (None, self.open[one])), None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.transport.abort()
        return True


class LimitedProtocol(H11Protocol):
    """A connection that is closed when it sends no request, or reads no response, for too long."""

    def __init__(self, *given: Any, limits: ConnectionLimits, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._left = False
        """True once the connection is refused, closed or a WebSocket: its timers are not set again."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._limits.admit(self):
            self._watch()
        else:
            self._leave()
            transport.write(FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        # WebSockets are listeners, whose number has a limit of its own.
        self._leave()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self._after(self._limits.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._write_timer)

    def _watch(self) -> None:
        """Set the timer while no request is under way, and cancel it while one is."""
        if self._left:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._limits.waiting.pop(self, None)
            self._cancel(self._timer)
            self._timer = None
        elif self._timer is None:
            self._limits.waiting[self] = None
            self._timer = self._after(self._limits.request_timeout_s, self.transport.abort)

    def _after(self, seconds: float, action: Callable[[], object]) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, action)

    def _leave(self) -> None:
        self._left = True
        self._limits.leave(self)
        self._cancel(self._timer)
        self._cancel(self._write_timer)

    def _cancel(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
