"""Solutions that nobody reads are let go by the thread that asked for them, whoever drops them."""

import gc
import threading
from collections.abc import Iterator

import pytest
from pyoxigraph import QuerySolutions, Store

from freshkeeper.maintenance.base.unread_results import Unread, _here, read_here
from freshkeeper.maintenance.engine.evaluator import LazyRows, Snapshot, Table
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.sources.bounds import bounded

ROWS = "SELECT ?n { VALUES ?n { 1 2 3 } }"


def asked() -> QuerySolutions:
    found = Store().query(ROWS)
    assert isinstance(found, QuerySolutions)
    return found


def collected_elsewhere() -> None:
    """A cycle of garbage is collected by whatever thread comes by."""
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()


def test_rows_that_nobody_reads_may_be_dropped_by_another_thread() -> None:
    found = Snapshot().find(ROWS, {})
    assert isinstance(found, Table)
    assert isinstance(found.rows, LazyRows)
    ring: list[object] = [found]
    ring.append(ring)
    before = len(_here.solutions)
    del found, ring
    collected_elsewhere()  # an error of the library here would fail the test
    unread = Unread.of(asked())
    assert len(_here.solutions) == before
    assert len(list(unread.take())) == 3
    assert len(_here.solutions) == before - 1


def failing(rows: QuerySolutions) -> Iterator[object]:
    yield next(rows)
    raise ValueError("in the middle")


def reading(rows: QuerySolutions) -> list[object]:
    return list(failing(rows))


def test_an_error_takes_nothing_along_that_was_being_read() -> None:
    with pytest.raises(ValueError, match="middle") as info, read_here():
        reading(asked())
    with pytest.raises(FetchError, match="more than 1 rows") as told:
        bounded(asked, 32)
    info.value.args = (info.value, told.value)  # a cycle
    del info, told
    collected_elsewhere()
