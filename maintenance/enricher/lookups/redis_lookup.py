"""Values or hashes of Redis."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from freshkeeper.maintenance.enricher.lookup_requests import Rows


@dataclass(frozen=True)
class RedisLookup:
    """Values that Redis has under the names of keys: a string, read as JSON unless `read` says otherwise, or a hash.

    All keys of a request go in one round trip. The client is `redis.Redis`, or that of `redis.asyncio` for
    `AsyncEnricher`.

    >>> from freshkeeper import RedisLookup
    >>> RedisLookup(client=None, name="product:{key}").names(["pen"])
    ['product:pen']
    """

    client: Any
    name: str = "{key}"
    hashes: bool = False
    read: Callable[[Any], Any] = json.loads

    def __call__(self, keys: list[Any]) -> Any:
        """Return the values that there are."""
        if not self.hashes:
            return self._rows(keys, self.client.mget(self.names(keys)))
        pipeline = self.client.pipeline(transaction=False)
        for name in self.names(keys):
            pipeline.hgetall(name)
        return self._rows(keys, pipeline.execute())

    @property
    def asynchronous(self) -> bool:
        """Return whether the result has to be awaited."""
        return ".asyncio" in type(self.client).__module__

    def names(self, keys: Sequence[Any]) -> list[str]:
        """Return the names of these keys in Redis."""
        return [self.name.format(key=key) for key in keys]

    def _rows(self, keys: list[Any], found: Any) -> Any:
        return self._awaited(keys, found) if self.asynchronous else self._read(keys, found)

    async def _awaited(self, keys: list[Any], found: Any) -> Rows:
        return self._read(keys, await found)

    def _read(self, keys: list[Any], found: Sequence[Any]) -> Rows:
        if self.hashes:
            hashes = [{_text(name): _text(value) for name, value in each.items()} for each in found]
            return {key: row for key, row in zip(keys, hashes, strict=True) if row}
        return {key: self.read(each) for key, each in zip(keys, found, strict=True) if each is not None}


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
