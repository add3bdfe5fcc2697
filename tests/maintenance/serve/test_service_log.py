"""The log of a service: what was acknowledged is there, in order, whatever cut the process off."""

import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.serve.service_log import LogRecord, ServiceLog

RECORDS = st.lists(
    st.tuples(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3), st.binary(max_size=50)), min_size=1
)


def read(log: ServiceLog, close: bool = False) -> list[tuple[dict[str, object], bytes]]:
    if close:
        log.close()
    return [(dict(record.head), record.body) for record in log.records()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@given(records=RECORDS, cut=st.integers(1, 200))
def test_after_any_cut_whole_records_are_there_in_order_and_the_log_goes_on(
    place: Path, records: list[tuple[dict[str, int], bytes]], cut: int
) -> None:
    directory = place / f"{len(list(place.iterdir()))}"
    log = ServiceLog(directory)
    for head, body in records:
        log.append(LogRecord(head, body))
    log.close()
    (path,) = directory.glob("*.log")
    left = max(0, path.stat().st_size - cut)
    with path.open("ab") as file:
        file.truncate(left)
    again = ServiceLog(directory)
    kept = read(again)
    assert kept == records[: len(kept)]
    assert again.size <= left
    again.append(LogRecord({"last": 1}))
    assert read(again) == [*kept, ({"last": 1}, b"")]
    again.close()


def test_segments_begin_with_what_stands_for_those_before_and_may_go(tmp_path: Path) -> None:
    log = ServiceLog(tmp_path / "log")
    log.append(LogRecord({"n": 1}))
    log.roll(LogRecord({"snapshot": 1}))
    log.append(LogRecord({"n": 2}, b"x"))
    assert read(log) == [({"n": 1}, b""), ({"snapshot": 1}, b""), ({"n": 2}, b"x")]
    log.drop(log.last)
    log.close()
    assert read(ServiceLog(tmp_path / "log"), close=True) == [({"snapshot": 1}, b""), ({"n": 2}, b"x")]


@pytest.mark.parametrize("byte", [0, 9, 14, 17, 25, 30])
def test_damage_is_an_error_that_says_where_and_nothing_is_cut_away(tmp_path: Path, byte: int) -> None:
    log = ServiceLog(tmp_path / "log")
    log.append(LogRecord({"n": 1}, b"a" * 10))
    log.append(LogRecord({"n": 2}, b"b" * 10))
    log.close()
    (path,) = (tmp_path / "log").glob("*.log")
    text = bytearray(path.read_bytes())
    text[byte] ^= 1
    path.write_bytes(text)
    with pytest.raises(ConfigError, match="is damaged at byte 0"):
        ServiceLog(tmp_path / "log")
    assert path.read_bytes() == text


def test_zeros_that_a_power_cut_left_are_no_records(tmp_path: Path) -> None:
    log = ServiceLog(tmp_path / "log")
    log.append(LogRecord({"n": 1}))
    log.close()
    (path,) = (tmp_path / "log").glob("*.log")
    path.write_bytes(path.read_bytes() + bytes(100))
    assert read(ServiceLog(tmp_path / "log"), close=True) == [({"n": 1}, b"")]


def test_where_the_disk_takes_only_a_part_the_log_stays_as_it_was(tmp_path: Path) -> None:
    log = ServiceLog(tmp_path / "log")
    log.append(LogRecord({"n": 1}))
    before, own = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.size + 20, own[1]))
    try:
        with pytest.raises(ConfigError, match="cannot be written: File too large"):
            log.append(LogRecord({"n": 2}, b"x" * 1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, own)
        signal.signal(signal.SIGXFSZ, before)
    log.append(LogRecord({"n": 3}))
    assert [head["n"] for head, _ in read(log, close=True)] == [1, 3]
