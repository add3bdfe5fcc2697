"""A conversion without a mapping: files as people have them, `events.csv`, or `events.csv:at,product` to name columns.

Two columns suffice, when and which key. Where columns are not named they are those that a trace has, else the first
ones; where the unit of times is not said it is told by what the column holds.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.simulator.trace.convert import (
    ArrivalSource,
    ChangeSource,
    Conversion,
    EdgeSource,
    Unit,
    columns_of,
    first_times,
)
from freshkeeper.simulator.trace.event_files import NO_CHANGES, NamedFile

USUAL = {"time": "t_ms", "key": "sn", "entry": "sr"}
"""The usual names of the columns of a trace."""
FIRST_MS = 10**11
"""Of the epoch: 1973 in milliseconds, and the year 5138 in seconds."""


def _column_names(file: NamedFile, *meanings: str) -> tuple[str, ...]:
    """Return the columns that hold these meanings."""
    if file.columns:
        if len(file.columns) < len(meanings):
            how = f"{file.path}:{','.join(meanings)}"
            raise InputError(f"{file.path}: {len(meanings)} columns must be named, not {len(file.columns)}: {how}")
        return file.columns
    there, usual = columns_of(file.path), tuple(USUAL[meaning] for meaning in meanings)
    if set(usual) <= set(there):
        return usual
    if len(there) < len(meanings):
        raise InputError(f"{file.path} has {len(there)} columns; it must have {len(meanings)}: {', '.join(meanings)}")
    return tuple(there[: len(meanings)])


def _unit(file: NamedFile, column: str) -> Unit:
    """Detect the unit of times: 2026-05-01 is a date, 1777593600 is in seconds, 1777593600000 in ms."""
    if column.endswith("_ms"):
        return "ms"
    words = first_times(file.path, column)
    if not pc.all(pc.match_substring_regex(words, r"^\s*-?\d+(\.\d+)?\s*$")).as_py():
        return "iso"
    return "s" if np.max(words.cast(pa.float64()).to_numpy()) < FIRST_MS else "ms"


def conversion(
    arrivals: NamedFile, edges: NamedFile | None, changes: NamedFile | None, unit: Unit | None
) -> tuple[Conversion, list[str]]:
    """Return the conversion, and sentences that say how the files were read."""
    if changes is None:
        raise InputError(NO_CHANGES)
    time, key = _column_names(arrivals, "time", "key")[:2]
    came = ArrivalSource(file=arrivals.path, time=time, unit=unit or _unit(arrivals, time), sn=key)
    notes = [f"{arrivals.path}: {time} is the time ({came.unit}), {key} the key."]
    needs = None
    if edges is not None:
        owner, entry = _column_names(edges, "key", "entry")[:2]
        needs = EdgeSource(file=edges.path, sn=owner, sr=entry)
        notes.append(f"{edges.path}: the key {owner} needs the entry {entry}.")
    if changes.path.is_dir():
        return Conversion(arrivals=came, edges=needs, changes=ChangeSource(file=changes.path)), notes
    at, changed, *values = _column_names(changes, "time", "entry")
    value = values[0] if values else None
    truth = ChangeSource(
        file=changes.path, time=at, unit=unit or _unit(changes, at), sr=changed, value=value, observations=bool(value)
    )
    said = f", whenever {value} differs from the row before" if value else ""
    notes.append(f"{changes.path}: {changed} changes at {at} ({truth.unit}){said}.")
    return Conversion(arrivals=came, edges=needs, changes=truth), notes
