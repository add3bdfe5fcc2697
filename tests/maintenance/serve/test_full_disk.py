"""A disk that is full, on a file system of its own: nothing acknowledged is lost, and all goes on once it has room."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from servers import eventually
from serving import TOPICS, configured, empty_result, posts, served

from freshkeeper.maintenance.base.errors import ConfigError, StorageError
from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.serve.answer_log import AnswerLog
from freshkeeper.maintenance.serve.disk_room import DiskRoom
from freshkeeper.maintenance.state.database import Database


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory with 8 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> Path:
    """Fill the disk but for some kilobytes."""
    filler = place / "filler"
    room = DiskRoom(place, clock=iter(range(0, 10_000, 10)).__next__)
    with filler.open("wb", buffering=0) as file:
        while not room.shortage():
            file.write(bytes(64 << 10))
    return filler


def write_until_full(filler: Path) -> None:
    """Fill the disk to its last page."""
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


def consume(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def test_a_push_to_a_full_disk_is_refused_and_goes_on_when_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    config = configured(tmp_path, state=str(small_disk / "state"))
    with served(config) as client:
        client.register("topics", TOPICS)
        assert client.push(posts(500, 1500)).status_code == 202
        assert eventually(lambda: client.answered("topics") == 1000)
        filler = fill(small_disk)
        assert eventually(lambda: client.get("/readyz").status_code == 503)
        assert "bytes left" in client.get("/readyz").json()["blocked"]
        refused = client.push(posts(2500))
        assert (refused.status_code, refused.headers["retry-after"]) == (507, "1")
        assert "bytes left" in refused.json()["detail"]
        assert client.get("/healthz").status_code == 200
        filler.unlink()
        assert eventually(lambda: client.push(posts(2500)).status_code == 202, 2)
        assert eventually(lambda: client.answered("topics") == 2000)
        assert client.get("/readyz").status_code == 200


def test_a_line_that_does_not_fit_leaves_nothing_of_itself(small_disk: Path) -> None:
    answers = AnswerLog(small_disk / "answers")
    answers.put(empty_result("q", 1))
    filler = small_disk / "filler"
    write_until_full(filler)
    with pytest.raises(StorageError, match="No space left on device") as refused:
        consume(map(answers.put, [empty_result("q", t) for t in range(2, 10_000)]))
    assert (refused.value.is_full, refused.value.exit_code) == (True, 75)
    tail = answers.tail("q", 0)
    last = [t for t, _ in tail.read(10_000)][-1]
    filler.unlink()
    answers.put(empty_result("q", last + 1))
    assert [t for t, _ in tail.read(10)] == [last + 1]
    tail.close()
    answers.close()


def test_a_state_on_a_full_disk_can_be_tried_again(small_disk: Path) -> None:
    base = Database(small_disk / "state")
    filler = small_disk / "filler"
    write_until_full(filler)
    base.note({"a": "x" * 100_000})
    with pytest.raises(StorageError, match="full"), base.transaction():
        pass
    filler.unlink()
    with base.transaction():
        pass
    base.close()
    again = Database(small_disk / "state")
    assert len(again.facts["a"]) == 100_000
    again.close()


def test_too_many_open_files_are_no_mistake_of_the_client(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Too many open files") as refused, writing(tmp_path / "x"):
        raise OSError(errno.EMFILE, "Too many open files")
    assert not refused.value.is_full
    with pytest.raises(ConfigError) as refused_for_good, writing(tmp_path / "x"):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert not isinstance(refused_for_good.value, StorageError)
