"""Files of lines that a crash cut off: whole lines stay, a partial last one goes."""

from pathlib import Path

import pytest

from freshkeeper.maintenance.state.append_log import BLOCK_BYTES, truncate_partial_line

LONG = b"x" * (2 * BLOCK_BYTES)


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (b"", b""),
        (b"partial", b""),
        (b"one\n", b"one\n"),
        (b"one\ntwo\npart", b"one\ntwo\n"),
        (b"one\n" + LONG, b"one\n"),
        (LONG + b"\n" + LONG + b"\n", LONG + b"\n" + LONG + b"\n"),
        (LONG, b""),
    ],
)
def test_a_partial_last_line_is_removed(tmp_path: Path, written: bytes, left: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(written)
    assert truncate_partial_line(path) == len(left)
    assert path.read_bytes() == left
