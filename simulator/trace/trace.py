"""A trace: arrivals, edges and changes; a directory of tables as CSV, CSV.gz or Parquet.

    arrivals   t_ms, sn            sorted by t_ms; an SN without an edge is legal: it has no answers
    edges      sn, sr              a set: a repeated row is dropped and counted; an SN that never arrives is legal
    changes    t_ms, sr[, value]   sorted by t_ms; may be empty; an SR without an edge is legal
    schedule   sr, interval_ms[, phase_ms]   optional: what a generator knows and no recording does; with phases it
                                   tells the same instants as changes

Ids are integers where every id of that kind, in all tables, is written as one (`7`, not `07`), else strings; values
likewise. SNs and SRs are numbered in the order of their ids, so that the numbers do not depend on the format. Columns
that are not named here are ignored. Messages count rows from 1, the header left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet
from pyarrow.types import is_string

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.base.errors import InputError, nearest
from freshkeeper.maintenance.base.files import atomic_file, writing
from freshkeeper.simulator.trace.file_tables import Labels, TraceTable, integers_or_words, read_csv, read_parquet

COLUMNS = {
    "arrivals": ("t_ms", "sn"),
    "edges": ("sn", "sr"),
    "changes": ("t_ms", "sr"),
    "schedule": ("sr", "interval_ms"),
}
FORMATS = ("csv", "csv.gz", "parquet")
_INTEGER_COLUMNS = ("t_ms", "interval_ms", "phase_ms")
_WORD = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, eq=False)
class TraceArrivals:
    """Elements of the stream in the order of time."""

    t_ms: Ints
    sn: Ids

    def __len__(self) -> int:
        return self.t_ms.size


@dataclass(frozen=True, eq=False)
class Edges:
    """Distinct edges: SN `sn` needs SR `sr`. `repeated` counts the rows of the source that repeated one."""

    sn: Ids
    sr: Ids
    repeated: int = 0

    def __len__(self) -> int:
        return self.sn.size


@dataclass(frozen=True, eq=False)
class Changes:
    """Instants at which an SR changed, in the order of time, with the new value if it is known."""

    t_ms: Ints
    sr: Ids
    value: Labels | None = None

    @classmethod
    def in_order(cls, t_ms: Ints, sr: Ids, value: Labels | None = None) -> "Changes":
        """Sort rows by time."""
        order = np.argsort(t_ms, kind="stable")
        return cls(t_ms[order], sr[order], None if value is None else value[order])

    def __len__(self) -> int:
        return self.t_ms.size


@dataclass(frozen=True, eq=False)
class ChangeSchedule:
    """The mean change interval of every SR, and with a phase its exact instants: phase + n·interval for every n ≥ 0."""

    interval_ms: Ints
    phase_ms: Ints | None = None


@dataclass(frozen=True, eq=False)
class Trace:
    """Three tables over densely numbered SNs and SRs, and the ids that the numbers stand for."""

    arrivals: TraceArrivals
    edges: Edges
    changes: Changes
    sn_labels: Labels
    sr_labels: Labels
    schedule: ChangeSchedule | None = None

    @property
    def sns(self) -> int:
        """Return the number of lookup keys."""
        return int(self.sn_labels.size)

    @property
    def srs(self) -> int:
        """Return the number of cached entries."""
        return int(self.sr_labels.size)

    @property
    def t0(self) -> int:
        """The first arrival, in ms, from which evaluations count."""
        if not len(self.arrivals):
            raise InputError("the trace has no arrivals, so no t0; give it at least one")
        return int(self.arrivals.t_ms[0])

    def arrivals_between(self, after: int, until: int) -> TraceArrivals:
        """Return the arrivals in (after, until], as views."""
        rows = _between(self.arrivals.t_ms, after, until)
        return TraceArrivals(self.arrivals.t_ms[rows], self.arrivals.sn[rows])

    def changes_between(self, after: int, until: int) -> Changes:
        """Return the changes in (after, until], as views."""
        rows, value = _between(self.changes.t_ms, after, until), self.changes.value
        return Changes(self.changes.t_ms[rows], self.changes.sr[rows], None if value is None else value[rows])

    def batches(self, instants: Iterable[int]) -> Iterator[tuple[int, TraceArrivals]]:
        """Yield each instant with the arrivals since the previous one; the first has all arrivals up to it."""
        before = -1
        for now in instants:
            yield now, self.arrivals_between(before, now)
            before = now


def read_trace(directory: Path) -> Trace:
    """Read the tables of a directory, each in whichever format it has; errors name the file, the row and the value."""
    arrivals, edges, changes = (_table(directory, name) for name in ("arrivals", "edges", "changes"))
    schedule = _find(directory, "schedule")
    arrivals.must_have_rows()
    edges.must_have_rows()
    sn_labels, (arrived, sn) = number(arrivals.words("sn"), edges.words("sn"))
    columns = [edges.words("sr"), changes.words("sr")]
    if schedule is not None:
        columns.append(schedule.words("sr"))
    sr_labels, (sr, changed, *planned) = number(*columns)
    joined = distinct_edges(sn, sr)
    if not np.isin(arrived, joined.sn).any():
        seen = f"arrivals have sn {sn_labels[arrived[0]]}, edges have sn {sn_labels[sn[0]]}"
        raise InputError(f"{directory}: nothing joins, {seen}; the same lookup key must have the same id in both")
    trace = Trace(
        arrivals=TraceArrivals(arrivals.times(), arrived),
        edges=joined,
        changes=Changes(changes.times(), changed, changes.values("value")),
        sn_labels=sn_labels,
        sr_labels=sr_labels,
        schedule=None if schedule is None else _schedule(schedule, planned[0], sr_labels),
    )
    if odd := differs_first(trace):
        raise InputError(
            f"{directory}: changes and schedule say different things, first of the sr {sr_labels[odd[0]]} at {odd[1]}; "
            "leave out the schedule, or correct what is wrong"
        )
    return trace


def differs_first(trace: Trace) -> tuple[int, int] | None:
    """Return SR and instant of the first change, from t0 to the last arrival, that only one table has."""
    schedule, end = trace.schedule, int(trace.arrivals.t_ms[-1])
    if schedule is None or schedule.phase_ms is None:
        return None
    interval = schedule.interval_ms
    first = schedule.phase_ms + ((trace.t0 - schedule.phase_ms) // interval + 1) * interval
    recorded = trace.changes_between(trace.t0, end)
    nth, off = np.divmod(recorded.t_ms - first[recorded.sr], interval[recorded.sr])
    # Of n recorded changes one that is missing is among the first n + 1 planned ones.
    planned = np.minimum((end - first) // interval, np.bincount(recorded.sr, minlength=trace.srs)) + 1
    begins = np.cumsum(planned) - planned
    known = np.zeros(planned.sum(), bool)
    known[(begins[recorded.sr] + nth)[(off == 0) & (nth < planned[recorded.sr])]] = True
    lacking = np.flatnonzero(~known)
    sr = np.searchsorted(begins, lacking, side="right") - 1
    alone = np.concatenate([recorded.sr[off > 0], sr])
    instants = np.concatenate([recorded.t_ms[off > 0], first[sr] + (lacking - begins[sr]) * interval[sr]])
    if not instants.size:
        return None
    earliest = int(instants.argmin())
    return int(alone[earliest]), int(instants[earliest])


def check_there(directory: Path) -> None:
    """Raise InputError if a directory lacks a table of a trace; read none of them."""
    for name in ("arrivals", "edges", "changes"):
        if not any((directory / f"{name}.{form}").exists() for form in FORMATS):
            raise _missing(directory, name)


def write_trace(trace: Trace, directory: Path, form: str = "csv", overwrite: bool = False) -> None:
    """Write the tables as `csv`, `csv.gz` or `parquet`; refuse a directory with tables unless `overwrite` is set."""
    if form not in FORMATS:
        raise InputError(f"{form!r} is no format of a trace; {nearest(form, list(FORMATS))}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory} cannot be made: {error.strerror}; name another directory") from None
    present = [directory / f"{name}.{known}" for name in COLUMNS for known in FORMATS]
    present = [path for path in present if path.exists()]
    if present and not overwrite:
        raise InputError(f"{present[0]} is there already; name an empty directory, or --overwrite it")
    with writing(directory):
        for path in present:
            path.unlink()
        for name, columns in columns_of(trace).items():
            table = pa.table(
                {
                    name: pa.array(values, pa.string() if values.dtype == object else None)
                    for name, values in columns.items()
                }
            )
            with atomic_file(directory / f"{name}.{form}") as file:
                _write(table, file, form)


def distinct_edges(sn: Ids, sr: Ids) -> Edges:
    """Return distinct edges in the order of their first row, with the number of repeated rows."""
    keys = sn.astype(np.int64) << 32 | sr
    first = np.sort(np.unique(keys, return_index=True)[1])
    return Edges(sn[first], sr[first], int(sn.size - first.size))


def number(*columns: pa.DictionaryArray) -> tuple[Labels, list[Ids]]:
    """Assign numbers to the ids of several columns together, in order; ids without a row get none."""
    used = [_used(column) for column in columns]
    unique = pa.concat_arrays([words for words, _ in used]).dictionary_encode()
    labels = integers_or_words(unique.dictionary)
    if labels.dtype == object:  # Arrow sorts strings faster than numpy sorts objects
        order = pc.sort_indices(unique.dictionary).to_numpy()
    else:
        order = np.argsort(labels)
    rank = np.empty(order.size, np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    ranks = np.split(rank[unique.indices.to_numpy()], np.cumsum([len(words) for words, _ in used])[:-1])
    return labels[order], [new[codes] for new, (_, codes) in zip(ranks, used, strict=True)]


def _find(directory: Path, name: str) -> TraceTable | None:
    found = [directory / f"{name}.{form}" for form in FORMATS if (directory / f"{name}.{form}").exists()]
    if len(found) > 1:
        raise InputError(f"{found[0]} and {found[1].name} are both there; keep one of them")
    if not found:
        return None
    if found[0].suffix == ".parquet":
        table = read_parquet(found[0])
    else:
        types = dict.fromkeys(_INTEGER_COLUMNS, pa.int64()) | dict.fromkeys(("sn", "sr", "value"), _WORD)
        table = read_csv(found[0], types)
    table.must_have(*COLUMNS[name])
    return table


def _table(directory: Path, name: str) -> TraceTable:
    table = _find(directory, name)
    if table is None:
        raise _missing(directory, name)
    return table


def _missing(directory: Path, name: str) -> InputError:
    if not directory.is_dir():
        return InputError(f"{directory} is no directory; a trace is one with the tables arrivals, edges and changes")
    if not any((directory / f"{table}.{form}").exists() for table in COLUMNS for form in FORMATS):
        return InputError(f"{directory} has no tables; a trace has arrivals, edges and changes as {', '.join(FORMATS)}")
    return InputError(f"{directory}: the table {name} is missing; add {name}.csv with {','.join(COLUMNS[name])}")


def _schedule(table: TraceTable, sr: Ids, labels: Labels) -> ChangeSchedule:
    order = np.argsort(sr, kind="stable")
    if not np.array_equal(sr[order], np.arange(labels.size)):
        named = np.bincount(sr, minlength=labels.size)
        odd = int(np.argmax(named != 1))
        raise InputError(f"{table.path}: the sr {labels[odd]!r} has {named[odd]} rows; every sr must have one")
    phases = table.integers("phase_ms")[order] if "phase_ms" in table.data.column_names else None
    return ChangeSchedule(table.integers("interval_ms", least=1)[order], phases)


def _used(column: pa.DictionaryArray) -> tuple[pa.Array, Ids]:
    codes: Ids = column.indices.to_numpy()
    used = np.bincount(codes, minlength=len(column.dictionary)) > 0
    compact = (np.cumsum(used) - 1).astype(np.int32)
    return column.dictionary.filter(pa.array(used)), compact[codes]


def _between(t_ms: Ints, after: int, until: int) -> slice:
    begin, end = np.searchsorted(t_ms, (after, until), side="right")
    return slice(int(begin), int(end))


def columns_of(trace: Trace) -> dict[str, dict[str, Labels]]:
    """Return the columns of each table, with ids instead of numbers."""
    sn, sr = trace.sn_labels, trace.sr_labels
    tables: dict[str, dict[str, Labels]] = {
        "arrivals": {"t_ms": trace.arrivals.t_ms, "sn": sn[trace.arrivals.sn]},
        "edges": {"sn": sn[trace.edges.sn], "sr": sr[trace.edges.sr]},
        "changes": {"t_ms": trace.changes.t_ms, "sr": sr[trace.changes.sr]},
    }
    if trace.changes.value is not None:
        tables["changes"]["value"] = trace.changes.value
    if trace.schedule is not None:
        order = np.argsort(sr)
        tables["schedule"] = {"sr": sr[order], "interval_ms": trace.schedule.interval_ms[order]}
        if trace.schedule.phase_ms is not None:
            tables["schedule"]["phase_ms"] = trace.schedule.phase_ms[order]
    return tables


def _write(table: pa.Table, path: Path, form: str) -> None:
    if form == "parquet":
        parquet.write_table(table, path, compression="zstd")
        return
    words = [table[name] for name in table.column_names if is_string(table.schema.field(name).type)]
    special = any(pc.any(pc.match_substring_regex(column, r'[",\r\n]|^\s|\s$|^$')).as_py() for column in words)
    options = csv.WriteOptions(include_header=False, quoting_style="needed" if special else "none")
    with pa.CompressedOutputStream(path, "gzip") if form == "csv.gz" else pa.OSFile(str(path), "wb") as file:
        file.write(",".join(table.column_names).encode() + b"\n")
        csv.write_csv(table, file, options)
