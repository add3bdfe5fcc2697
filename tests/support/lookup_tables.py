"""A table that somebody else owns and that counts who asks."""

import threading
from dataclasses import dataclass, field
from typing import Any

START = 1_700_000_000_000


@dataclass
class Table:
    """Somebody else's rows; every call is a request."""

    rows: dict[object, object] = field(default_factory=lambda: {key: key.upper() for key in "abcdefghij"})
    asked: list[list[object]] = field(default_factory=list)
    broken: set[Any] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, keys: list[object]) -> dict[object, object]:
        with self.lock:
            self.asked.append(keys)
        for key in keys:
            if key in self.broken:
                raise LookupError(f"{key} is broken")
        return {key: self.rows[key] for key in keys if key in self.rows}
