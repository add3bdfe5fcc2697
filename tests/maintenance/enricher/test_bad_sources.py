"""A source that misbehaves for one key, or for all: the other keys never notice, and errors name the cause."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from freshkeeper import CachedRow, Enricher, RetryAfter

BAD = 13
release = threading.Event()


def hang() -> Any:
    release.wait(10)
    return {}


def fail(error: BaseException) -> Any:
    raise error


MODES: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (lambda: fail(LookupError("no such thing")), "LookupError: no such thing"),
    "exits": (lambda: fail(SystemExit("bye")), "SystemExit: bye"),
    "hangs": (hang, "no answer within 0.5 s: the request is under way"),
    "refuses": (lambda: fail(RetryAfter(0.3)), "the source wants no request for 0.3 s"),
    "other keys": (lambda: {"13": "row"}, "(int) and returned only other keys, such as '13' (str)"),
    "a list": (lambda: ["row"], "a lookup returns a mapping from keys to rows, not list"),
    "nothing": (lambda: None, "a lookup returns a mapping from keys to rows, not NoneType"),
}


class Unreadable:
    """A row that fails whatever is asked of it."""

    def __repr__(self) -> str:
        raise ValueError("not to be read")

    __eq__ = __hash__ = __repr__  # type: ignore[assignment]


class Source:
    """Rows to all keys, but that some key, or every key, makes it misbehave."""

    def __init__(self, misbehave: Callable[[], Any]) -> None:
        self.misbehave = misbehave
        self.bad_for_all = False

    def __call__(self, keys: list[int]) -> Any:
        if self.bad_for_all or BAD in keys:
            return self.misbehave()
        return {key: f"row {key}" for key in keys}


def timed_reads(enricher: Enricher[int, Any], keys: range) -> list[CachedRow[Any]]:
    """Read keys one by one; none takes long."""
    rows = []
    for key in keys:
        began = time.monotonic()
        rows.append(enricher.get(key))
        assert time.monotonic() - began < 2, key
    return rows


def right(rows: list[CachedRow[Any]], keys: range) -> None:
    assert [(row.value, row.error) for row in rows] == [(f"row {key}", None) for key in keys]


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("mode", MODES)
def test_a_key_for_which_the_source_misbehaves_harms_no_other(mode: str, batch: int) -> None:
    if mode == "hangs" and batch > 1:
        pytest.skip("the keys of one request hang together")
    misbehave, error = MODES[mode]
    release.clear()
    with Enricher(Source(misbehave), "500/s", batch=batch, parallel=3, max_wait=5) as enricher:
        known, new = range(10), range(20, 40)
        right(timed_reads(enricher, known), known)
        said: list[CachedRow[Any]] = []
        reader = threading.Thread(target=lambda: said.append(enricher.get(BAD, max_wait=0.5)))
        reader.start()
        right(timed_reads(enricher, known), known)
        right(timed_reads(enricher, new), new)
        reader.join()
        assert error in str(said[0].error), said
        assert said[0].value is None
        right(timed_reads(enricher, new), new)
        if mode != "refuses":  # who asks together with the bad key
            mixed = [
                row for key, row in zip(range(50, 60), enricher.get_many(range(50, 60)), strict=True) if key != BAD
            ]
            right(mixed, range(50, 60))
        release.set()


@pytest.mark.parametrize("mode", MODES)
def test_when_the_source_misbehaves_for_all_old_rows_stay_and_say_why(mode: str) -> None:
    misbehave, error = MODES[mode]
    release.clear()
    source = Source(misbehave)
    with Enricher(source, "500/s", parallel=3, max_wait=0.5) as enricher:
        known = range(5)
        right(timed_reads(enricher, known), known)
        source.bad_for_all = True
        for key in known:
            enricher.invalidate(key)
        rows = timed_reads(enricher, known)
        assert [row.value for row in rows] == [f"row {key}" for key in known]
        assert all(row.error is not None for row in rows)
        assert error in str(rows[0].error), rows[0]
        assert not any("budget" in str(row.error) for row in rows)
        source.bad_for_all = False
        release.set()


def test_an_enormous_row_holds_up_its_own_reader_only() -> None:
    rows = {1: "small", 2: b"x" * 100_000_000, 3: [{"n": n} for n in range(300_000)]}
    with Enricher(lambda keys: {key: rows[key] for key in keys}, "500/s") as enricher:
        assert enricher.get(1).value == "small"
        large = [threading.Thread(target=enricher.get, args=(key,)) for key in (2, 3)]
        for thread in large:
            thread.start()
        slowest = 0.0
        while any(thread.is_alive() for thread in large):
            began = time.monotonic()
            assert enricher.get(1, max_wait=0).value == "small"
            slowest = max(slowest, time.monotonic() - began)
        assert enricher.get(2).hit
    assert slowest < 0.5


def test_a_row_that_fails_whatever_is_asked_of_it_is_a_row_all_the_same() -> None:
    with Enricher(lambda keys: {key: Unreadable() for key in keys}, "500/s", batch=5) as enricher:
        for _ in range(2):
            rows = enricher.get_many(range(5))
            assert [(type(row.value), row.error) for row in rows] == [(Unreadable, None)] * 5
            for key in range(5):
                enricher.invalidate(key)
