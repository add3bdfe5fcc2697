"""A source that counts the connections that lookups of other processes make."""

import socket
import threading
import time
from typing import Self

from servers import HERE


class CountingServer:
    """Notes when it was asked, and for which keys."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.keys: list[str] = []
        self.socket = socket.create_server((HERE, 0), backlog=200)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.socket.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()

    def held_to(self, began: float, per_second: float, bank: float) -> None:
        """Assert that at no instant more had been asked than the bucket held and was paid since."""
        for n, at in enumerate(sorted(self.asked), 1):
            assert n <= bank + per_second * (at - began) + 1e-6, (n, at - began)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.asked.append(time.monotonic())
            self.keys += connection.recv(10_000).decode().split()
            connection.sendall(b"x")
            connection.close()
