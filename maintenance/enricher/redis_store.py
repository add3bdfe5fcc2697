"""Rows and the budget in Redis: for the processes of many machines.

Every step is one script that Redis runs alone, timed by the clock of its server, so that the budget holds whatever the
clocks of the machines say. All keys of an enricher begin with `freshkeeper:{name}:`, whose braces keep them together in
a cluster. Rows go when nobody has fetched them for a week, or when Redis evicts them.
"""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from freshkeeper.maintenance.base.errors import ConfigError, naming_extra
from freshkeeper.maintenance.enricher.stored_row import BucketRule, Lease, LeaseRequest, StoredRow, StoreError
from freshkeeper.maintenance.enricher.stores import LEASE_MS, MAX_INVALIDATIONS, MEMBER_MS, decode, encode

TIMEOUT_S = 0.5
"""Readers wait for a reply of Redis, so a server that does not answer is soon taken to be away."""
ROW_TTL_MS = 7 * 86_400_000

LOAD = """
local found = {}
for i, key in ipairs(KEYS) do
  local row = redis.call('HMGET', key, 'fetched', 'row')
  found[i] = row[2] and tonumber(row[1]) > tonumber(ARGV[i]) and row[2] or false
end
return found
"""
SAVE = """
for i, key in ipairs(KEYS) do
  local old = redis.call('HMGET', key, 'fetched', 'row')
  local fetched = tonumber(ARGV[2 * i])
  if not old[1] or tonumber(old[1]) < fetched or (tonumber(old[1]) == fetched and old[2]) then
    redis.call('HSET', key, 'fetched', ARGV[2 * i], 'row', ARGV[2 * i + 1])
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
"""
INVALIDATE = """
for i = 2, #KEYS do
  local old = redis.call('HGET', KEYS[i], 'fetched')
  if not old or tonumber(old) <= tonumber(ARGV[1]) then
    redis.call('HSET', KEYS[i], 'fetched', ARGV[1])
    redis.call('HDEL', KEYS[i], 'row')
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'key', ARGV[i + 3], 'owner', ARGV[4])
end
"""
CLAIM = """
local granted = {}
for i = 1, #KEYS / 2 do
  local row, claim = redis.call('HMGET', KEYS[i], 'fetched', 'row'), KEYS[#KEYS / 2 + i]
  granted[i] = 0
  if not row[2] or tonumber(row[1]) <= tonumber(ARGV[i + 2]) then
    local free = redis.call('SET', claim, ARGV[1], 'NX', 'PX', ARGV[2]) or redis.call('GET', claim) == ARGV[1]
    granted[i] = free and 1 or 0
  end
end
return granted
"""
RELEASE = """
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then redis.call('DEL', key) end
end
"""
CONFIGURE = """
local time = redis.call('TIME')
redis.call('HSETNX', KEYS[1], 'level', ARGV[3])
redis.call('HSETNX', KEYS[1], 'at', string.format('%.3f', time[1] * 1000 + time[2] / 1000))
redis.call('HSET', KEYS[1], 'rate', ARGV[1], 'capacity', ARGV[2])
"""
LEASE = """
local owner, least, most, reserve, unspent = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local lease_ms, member_ms = tonumber(ARGV[7]), tonumber(ARGV[8])
local bucket = redis.call('HMGET', KEYS[1], 'level', 'at', 'rate', 'capacity', 'price')
if not bucket[1] then return false end
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local processes, leased = 1, 0
local leases = redis.call('HGETALL', KEYS[2])
for i = 1, #leases, 2 do
  local tokens, at = string.match(leases[i + 1], '(%S+) (%S+)')
  local age = now - tonumber(at)
  if leases[i] ~= owner then
    if age > member_ms or age < -member_ms then
      redis.call('HDEL', KEYS[2], leases[i])
    else
      processes = processes + 1
      if age < lease_ms then leased = leased + tonumber(tokens) end
    end
  end
end
local income = tonumber(bucket[3]) * math.max(0, now - tonumber(bucket[2]))
local level = math.min(tonumber(bucket[4]) - leased, tonumber(bucket[1]) + income + tonumber(unspent))
local tokens = 0
if most > 0 and level - reserve >= least - 1e-9 then tokens = math.min(most, level - reserve) end
local function text(number) return string.format('%.17g', number) end
redis.call('HSET', KEYS[1], 'level', text(level - tokens), 'at', string.format('%.3f', now))
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'price', ARGV[6]) end
redis.call('HSET', KEYS[2], owner, text(tokens) .. ' ' .. string.format('%.3f', now))
return {text(tokens), text(level - tokens), bucket[3], bucket[4], bucket[5], processes}
"""


class RedisStore:
    """A store in Redis; every process that names the same server and enricher shares rows and budget."""

    def __init__(self, url: str, name: str) -> None:
        with naming_extra("a store in Redis"):
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        self._redis = redis
        self._prefix = f"freshkeeper:{{{name}}}:"
        self._owner = os.urandom(8).hex()
        try:
            self._client: Any = redis.Redis.from_url(
                url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, decode_responses=True,
                retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
            )  # fmt: skip
            self._scripts = {
                script: self._client.register_script(script)
                for script in (LOAD, SAVE, INVALIDATE, CLAIM, RELEASE, CONFIGURE, LEASE)
            }
            last = self._client.xrevrange(self._prefix + "invalidations", count=1)
        except (ValueError, redis.RedisError) as error:
            raise ConfigError(f"store {url!r}: {type(error).__name__}: {error}") from None
        self._seen = last[0][0] if last else "0-0"

    def load(self, newer_than: Mapping[Hashable, float]) -> dict[Hashable, StoredRow]:
        found = self._run(LOAD, self._names("row", newer_than), newer_than.values())
        rows = zip(newer_than, found, strict=True)
        return {key: StoredRow(*decode(row)) for key, row in rows if row is not None}

    def save(self, rows: Iterable[tuple[Hashable, StoredRow]]) -> None:
        written = dict(rows)
        arguments: list[Any] = [ROW_TTL_MS]
        for row in written.values():
            arguments += [row.fetched, encode(list(row))]
        self._run(SAVE, self._names("row", written), arguments)

    def invalidate(self, keys: Sequence[Hashable], at: float) -> None:
        names = [self._prefix + "invalidations", *self._names("row", keys)]
        self._run(INVALIDATE, names, [at, ROW_TTL_MS, MAX_INVALIDATIONS, self._owner, *map(encode, keys)])

    def invalidated(self) -> list[Hashable]:
        try:
            found = self._client.xread({self._prefix + "invalidations": self._seen})
        except self._redis.RedisError as error:
            raise StoreError(f"{type(error).__name__}: {error}") from error
        entries = [entry for _, stream in (found.items() if isinstance(found, dict) else found) for entry in stream]
        keys: list[Hashable] = []
        for self._seen, told in entries:
            if told["owner"] != self._owner:
                keys.append(decode(told["key"]))
        return keys

    def claim(self, newer_than: Mapping[Hashable, float], for_ms: float) -> list[Hashable]:
        names = [*self._names("row", newer_than), *self._names("claim", newer_than)]
        granted = self._run(CLAIM, names, [self._owner, int(for_ms), *newer_than.values()])
        return [key for key, free in zip(newer_than, granted, strict=True) if free]

    def release(self, keys: Sequence[Hashable]) -> None:
        self._run(RELEASE, self._names("claim", keys), [self._owner])

    def configure(self, rule: BucketRule) -> None:
        self._run(CONFIGURE, [self._prefix + "bucket"], rule)

    def lease(self, request: LeaseRequest) -> Lease | None:
        names = [self._prefix + "bucket", self._prefix + "leases"]
        price = "" if request.price is None else request.price
        found = self._run(LEASE, names, [self._owner, *request[:4], price, LEASE_MS, MEMBER_MS])
        if found is None:
            return None
        tokens, level, rate, capacity = map(float, found[:4])
        known_price = None if found[4] is None else float(found[4])
        return Lease(tokens, level, rate, capacity, price=known_price, processes=int(found[5]))

    def after_fork(self) -> None:
        self._owner = os.urandom(8).hex()  # the client's connections know of forks themselves

    def close(self) -> None:
        with suppress(self._redis.RedisError):
            self._client.hdel(self._prefix + "leases", self._owner)
        self._client.close()

    def _names(self, kind: str, keys: Iterable[Hashable]) -> list[str]:
        return [f"{self._prefix}{kind}:{encode(key)}" for key in keys]

    def _run(self, script: str, keys: Sequence[str], arguments: Iterable[Any]) -> Any:
        if not keys:
            return []
        try:
            return self._scripts[script](keys=keys, args=list(arguments))
        except self._redis.RedisError as error:
            raise StoreError(f"{type(error).__name__}: {error}") from error
