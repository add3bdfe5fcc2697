"""The answers of a run in pieces that can be judged side by side, as the ends of their Parquet files tell them apart.

An evaluation has to be judged as a whole. Files are written in the order of time, so nearly every evaluation lies in
one piece; rows of one of which another piece may have a part are held back, and judged when all of them are there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet, types

from freshkeeper.maintenance.journal.journal import SCHEMAS
from freshkeeper.maintenance.pipeline.analysis.analysis_engine import UnreadableError
from freshkeeper.maintenance.pipeline.analysis.judging import Judged, Parts, together
from freshkeeper.maintenance.pipeline.analysis.known import UNKNOWN, Known, coded, grouped
from freshkeeper.policies.arrays import Bools

BATCH = 1_000_000
"""Answers that are judged at once, with some 300 bytes each."""
DEFAULTS: Mapping[str, Any] = {
    "setting": "", "policy": "", "case": "bgp", "seed": 0, "sr": "", "t_ms": 0, "weight": 1, "refreshed_ms": UNKNOWN,
}  # fmt: skip
"""What stands in for a value that is not there; an SN stays unknown."""
WORDS = ("setting", "policy", "case", "sn", "sr")
WHOSE = ("setting", "policy", "seed")
Range = tuple[Any, Any] | None
"""From least to most; None where a file does not say."""
Box = tuple[Range, ...]
"""The ranges of setting, policy, seed and moment."""


@dataclass(frozen=True)
class Batch:
    """Row groups that follow one another, and the boxes of others that may have a part of their evaluations."""

    groups: tuple[tuple[Path, int], ...]
    shared: tuple[Box, ...] = ()


def batches(files: Iterable[Path], moment: str) -> list[Batch]:
    """All row groups; a batch has at most `BATCH` rows, but for a row group that is larger."""
    groups: list[list[tuple[Path, int]]] = []
    boxes: list[tuple[int, Box]] = []
    room = 0
    for file in files:
        about = parquet.ParquetFile(file).metadata
        for number in range(about.num_row_groups):
            group = about.row_group(number)
            if not group.num_rows:
                continue
            if group.num_rows > room:
                groups.append([])
                room = BATCH
            room -= group.num_rows
            groups[-1].append((file, number))
            boxes.append((len(groups) - 1, _box(group, moment)))
    shared = _shared(boxes)
    return [Batch(tuple(own), tuple(shared.get(at, ()))) for at, own in enumerate(groups)]


def shares(of: Sequence[Batch], most: int) -> list[list[Batch]]:
    """At most so many lists of batches that follow one another."""
    size = max(1, -(-len(of) // most))
    return [list(of[first : first + size]) for first in range(0, len(of), size)]


def columns_of(files: Iterable[Path]) -> list[str]:
    """All that any of them has."""
    try:
        return list(dict.fromkeys(name for file in files for name in parquet.read_schema(file).names))
    except (pa.ArrowInvalid, OSError) as error:
        raise UnreadableError(str(error)) from error


def _box(group: Any, moment: str) -> Box:
    said: dict[str, Range] = {name: (value, value) for name, value in DEFAULTS.items()}
    for at in range(group.num_columns):
        column = group.column(at)
        told = column.statistics
        known = told is not None and told.has_min_max and not told.null_count
        said[column.path_in_schema] = (told.min, told.max) if known else None
    return tuple(said.get(name) for name in (*WHOSE, moment))


def _shared(boxes: list[tuple[int, Box]]) -> dict[int, list[Box]]:
    """By batch the boxes of other batches that overlap with one of its own; in the order of time few are compared."""
    found: dict[int, list[Box]] = {}
    starts = [(-np.inf if box[-1] is None else box[-1][0]) for _, box in boxes]
    order = sorted(range(len(boxes)), key=starts.__getitem__)
    for place, at in enumerate(order):
        mine, box = boxes[at]
        for after in order[place + 1 :]:
            theirs, other = boxes[after]
            if box[-1] is not None and starts[after] > box[-1][1]:
                break
            if mine != theirs and _overlap(box, other):
                found.setdefault(mine, []).append(other)
                found.setdefault(theirs, []).append(box)
    return found


def _overlap(one: Box, other: Box) -> bool:
    return all(a is None or b is None or (a[0] <= b[1] and b[0] <= a[1]) for a, b in zip(one, other, strict=True))


def judged_piece(known: Known, moment: str, todo: Sequence[Batch]) -> tuple[Parts, pa.Table]:
    """Of some batches, one after the other: what they give, and the rows of evaluations that may not be whole."""
    done, left = [], []
    for batch in todo:
        rows = _read(batch, known, moment)
        if batch.shared:
            mask = _open(rows, batch.shared)
            left.append(rows.filter(pa.array(mask)))
            rows = rows.filter(pa.array(~mask))
        done.append(Judged(rows, known).parts())
    return together(done), pa.concat_tables(left) if left else fitted(SCHEMAS["answers"].empty_table(), known, moment)


def judged_whole(known: Known, pieces: Iterable[tuple[Parts, pa.Table]]) -> Iterator[Parts]:
    """What pieces gave, and what they held back, all together: as many evaluations at once as memory is enough for."""
    left = []
    for parts, rows in pieces:
        yield parts
        left.append(rows)
    rows = pa.concat_tables(left) if left else pa.table({})
    number = -(-rows.num_rows // BATCH)
    for part in range(number):
        share = rows.filter(pa.array(rows["moment"].to_numpy() // 1000 % number == part))
        yield Judged(share, known).parts()


def _read(batch: Batch, known: Known, moment: str) -> pa.Table:
    found = []
    for file, number in batch.groups:
        about = parquet.ParquetFile(file)
        names = [name for name in about.schema_arrow.names if name in (*DEFAULTS, "sn", moment)]
        words = [name for name in names if name in WORDS]
        opened = parquet.ParquetFile(file, metadata=about.metadata, read_dictionary=words)
        found.append(fitted(opened.read_row_group(number, columns=names, use_threads=False), known, moment))
    return pa.concat_tables(found)


def fitted(rows: pa.Table, known: Known, moment: str) -> pa.Table:
    """Columns as they are judged: with their type, nothing null but SNs, and `moment`, by which evaluations differ."""
    made = {}
    for part in SCHEMAS["answers"]:
        word = part.name in WORDS
        column = _typed(rows[part.name], part.type) if part.name in rows.column_names else None
        if column is None:
            column = pa.chunked_array([pa.nulls(rows.num_rows, part.type)])
        if part.name in DEFAULTS and column.null_count:
            column = pc.fill_null(column.cast(part.type), DEFAULTS[part.name])
        made[part.name] = column.cast(pa.dictionary(pa.int32(), pa.string())) if word else column
    if "case" not in rows.column_names and known.cases:
        made["case"] = _cases(made["setting"], made["policy"], known)
    return pa.table({name: column for name, column in made.items() if name != "k"} | {"moment": made[moment]})


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A value that cannot be of that type is null."""
    if column.type == kind or (types.is_dictionary(column.type) and column.type.value_type == kind):
        return column
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type):
        column = pc.if_else(
            pc.match_substring_regex(column, r"^\s*[+-]?\d+\s*$"), pc.utf8_trim_whitespace(column), None
        )
    return column.cast(kind, safe=False)


def _cases(setting: pa.ChunkedArray, policy: pa.ChunkedArray, known: Known) -> pa.ChunkedArray:
    """Answers of an older schema are of the case of their evaluations."""
    settings, names = coded(setting)
    policies, others = coded(policy)
    first, whose = grouped(settings, policies)
    words = [(names[int(settings[row])].as_py(), others[int(policies[row])].as_py()) for row in first]
    cases = pa.array([known.cases.get(word, "bgp") for word in words], pa.string())
    return pa.chunked_array([cases.take(pa.array(whose)).dictionary_encode()])


def _open(rows: pa.Table, boxes: Sequence[Box]) -> Bools:
    """The answers of evaluations that are in one of the boxes."""
    words = [coded(rows[name]) for name in ("setting", "policy")]
    numbers = [rows[name].to_numpy() for name in ("seed", "moment")]
    first, evaluation = grouped(*(codes for codes, _ in words), *numbers)
    columns = [np.array(names.to_pylist(), object)[codes[first]] for codes, names in words]
    columns += [column[first] for column in numbers]
    mask = np.zeros(first.size, bool)
    for box in set(boxes):
        inside = np.ones(first.size, bool)
        for column, told in zip(columns, box, strict=True):
            inside &= True if told is None else (column >= told[0]) & (column <= told[1])
        mask |= inside.astype(bool)
    return mask[evaluation]
