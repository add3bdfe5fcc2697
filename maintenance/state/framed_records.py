"""Records in a file, one behind the other: the sizes of head and body, check sums, head, and body.

One that a kill or a power cut broke off is the last, and as good as never written; a damaged one before it is an error.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from freshkeeper.policies.errors import ConfigError

SIZES = struct.Struct("<II")
"""Bytes of the head, bytes of the body."""
FRAME = struct.Struct("<IIII")
"""The sizes, their check sum, and that of head and body."""


def framed(head: bytes, body: bytes) -> bytes:
    """A record as it is appended."""
    return _front(head, body) + head + body


def frames(path: Path, may_be_cut: bool = True, torn: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Head and body of all whole records of a file.

    `torn`: where nobody waited for the disk, a power cut leaves a record of full length of which not all is there.
    """
    at = 0
    with path.open("rb") as file:
        while front := file.read(FRAME.size):
            of_head, of_body, check, _ = FRAME.unpack(front.ljust(FRAME.size, b"\0"))
            known = len(front) == FRAME.size and check == zlib.crc32(SIZES.pack(of_head, of_body))
            head, body = (file.read(of_head), file.read(of_body)) if known else (b"", b"")
            if not known or front != _front(head, body):
                file.seek(at)
                if may_be_cut and _is_cut(file, at + FRAME.size + of_head + of_body + torn if known else None):
                    return
                raise ConfigError(
                    f"{path} is damaged at byte {at}: give a copy of the state directory, or another directory"
                )
            yield head, body
            at += FRAME.size + of_head + of_body


def whole_size(path: Path, torn: bool = False) -> int:
    """Bytes of all whole records of a file: what is behind them was cut off."""
    return sum(FRAME.size + len(head) + len(body) for head, body in frames(path, torn=torn))


def _front(head: bytes, body: bytes) -> bytes:
    sizes = SIZES.pack(len(head), len(body))
    return sizes + struct.pack("<II", zlib.crc32(sizes), zlib.crc32(body, zlib.crc32(head)))


def _is_cut(file: BinaryIO, end: int | None) -> bool:
    """Whether a kill or a power cut explains the rest of a file: too short for what it says, or nothing but zeros."""
    rest = file.read()
    if end is not None and file.tell() < end:
        return True
    return len(rest) < FRAME.size or not rest.strip(b"\0")
