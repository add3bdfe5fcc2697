"""Streams over connections that a test holds in its hands."""

import io
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any

from freshkeeper.maintenance.streams.live.feed import (
    Feed,
    FeedAddress,
    FeedConnection,
    FeedLines,
    LostError,
    OnLoss,
    Position,
    Received,
)
from freshkeeper.maintenance.streams.live.server_sent_events import EventConnection
from freshkeeper.maintenance.streams.read_errors import ReadErrors


@dataclass
class Given:
    """A connection that gives some chunks and ends, or breaks off."""

    chunks: list[Received | Exception]
    gap: str = ""
    committed: list[Position] = field(default_factory=list)

    def receive(self) -> Received | None:
        if not self.chunks:
            return None
        chunk = self.chunks.pop(0)
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def commit(self, position: Position) -> None:
        self.committed.append(position)

    def close(self) -> None:
        pass


class Line(FeedAddress):
    """An address that gives one connection after the other; an error stands for one that cannot be had."""

    def __init__(self, connections: list[FeedConnection | Exception], keeps: bool = False) -> None:
        super().__init__("there")
        self.connections, self._keeps = connections, keeps
        self.asked: list[Position] = []

    @property
    def keeps(self) -> bool:
        return self._keeps

    def check(self) -> None:
        pass

    def connect(self, position: Position) -> FeedConnection:
        self.asked.append(dict(position))
        if not self.connections:
            raise LostError("nobody is there")
        connection = self.connections.pop(0)
        if isinstance(connection, Exception):
            raise connection
        return connection


def events(source: BufferedIOBase, read_errors: ReadErrors | None = None) -> FeedLines:
    """Server-sent events that end with their connection."""
    feed = Feed(Line([EventConnection(source)]), OnLoss.END)
    return FeedLines("events", io.BytesIO, read_errors or ReadErrors(), feed=feed)


def fed(address: Line, on_loss: OnLoss, **more: Any) -> FeedLines:
    """Elements of an address, without waiting."""
    return FeedLines("there", io.BytesIO, ReadErrors(), feed=Feed(address, on_loss, sleep=lambda _: None, **more))
