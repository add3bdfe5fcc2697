"""A conversion without a mapping: files as people have them, `events.csv`, or `events.csv:at,product` to name columns.

Two columns suffice, when and which key. Where columns are not named they are those that a trace has, else the first
ones; where the unit of times is not said it is told by what the column holds.
"""

from dataclasses import dataclass
from pathlib import Path

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

USUAL = {"time": "t_ms", "key": "sn", "entry": "sr"}
"""The usual names of the columns of a trace."""
FIRST_MS = 10**11
"""Of the epoch: 1973 in milliseconds, and the year 5138 in seconds."""
NO_CHANGES = (
    "nothing tells when the source changes, and without that there is no freshness: name a history of the source, a "
    "table of when and which entry (--changes FILE), or a journal whose refreshes saw it (--changes DIRECTORY)"
)


@dataclass(frozen=True)
class NamedFile:
    """A file, and the columns that were named with it, in the order of their meanings."""

    path: Path
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, written: str) -> "NamedFile":
        """Parse `events.csv:at,product`; a file whose name has a colon is taken as it is."""
        path, colon, columns = written.rpartition(":")
        if not colon or Path(written).exists():
            return cls(Path(written))
        return cls(Path(path), tuple(column.strip() for column in columns.split(",")))

    def column_names(self, *meanings: str) -> tuple[str, ...]:
        """Return the columns that hold these meanings."""
        if self.columns:
            if len(self.columns) < len(meanings):
                how = f"{self.path}:{','.join(meanings)}"
                raise InputError(f"{self.path}: {len(meanings)} columns must be named, not {len(self.columns)}: {how}")
            return self.columns
        there, usual = columns_of(self.path), tuple(USUAL[meaning] for meaning in meanings)
        if set(usual) <= set(there):
            return usual
        if len(there) < len(meanings):
            raise InputError(
                f"{self.path} has {len(there)} columns; it must have {len(meanings)}: {', '.join(meanings)}"
            )
        return tuple(there[: len(meanings)])

    def unit(self, column: str) -> Unit:
        """Detect the unit of times: 2026-05-01 is a date, 1777593600 is in seconds, 1777593600000 in ms."""
        if column.endswith("_ms"):
            return "ms"
        words = first_times(self.path, column)
        if not pc.all(pc.match_substring_regex(words, r"^\s*-?\d+(\.\d+)?\s*$")).as_py():
            return "iso"
        return "s" if np.max(words.cast(pa.float64()).to_numpy()) < FIRST_MS else "ms"


def conversion(
    arrivals: NamedFile, edges: NamedFile | None, changes: NamedFile | None, unit: Unit | None
) -> tuple[Conversion, list[str]]:
    """Return the conversion, and sentences that say how the files were read."""
    if changes is None:
        raise InputError(NO_CHANGES)
    time, key = arrivals.column_names("time", "key")[:2]
    came = ArrivalSource(file=arrivals.path, time=time, unit=unit or arrivals.unit(time), sn=key)
    notes = [f"{arrivals.path}: {time} is the time ({came.unit}), {key} the key."]
    needs = None
    if edges is not None:
        owner, entry = edges.column_names("key", "entry")[:2]
        needs = EdgeSource(file=edges.path, sn=owner, sr=entry)
        notes.append(f"{edges.path}: the key {owner} needs the entry {entry}.")
    if changes.path.is_dir():
        return Conversion(arrivals=came, edges=needs, changes=ChangeSource(file=changes.path)), notes
    at, changed, *values = changes.column_names("time", "entry")
    value = values[0] if values else None
    truth = ChangeSource(
        file=changes.path, time=at, unit=unit or changes.unit(at), sr=changed, value=value, observations=bool(value)
    )
    said = f", whenever {value} differs from the row before" if value else ""
    notes.append(f"{changes.path}: {changed} changes at {at} ({truth.unit}){said}.")
    return Conversion(arrivals=came, edges=needs, changes=truth), notes
