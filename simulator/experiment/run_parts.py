"""The parts of an experiment: one for every run, which is one setting with one seed and all its policies.

A file has one part, or those of several runs that were done together. It is there whole or not at all, so that a kill
at any moment leaves what was finished. Tables in it are Arrow's own files: small ones cost a tenth of what Parquet's
do, and nobody reads them but `run_tables`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

from freshkeeper.maintenance.analysis.headline import headline_of_table
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.journal import journal
from freshkeeper.policies.registry import find
from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting, PolicySettings, settings_of
from freshkeeper.simulator.experiment.summary import number_or_none
from freshkeeper.simulator.experiment.task import Outcome, Task
from freshkeeper.simulator.experiment.ttl_caches import cache_baselines
from freshkeeper.simulator.trace.describe import STEPS_PER_WINDOW, suggested_step
from freshkeeper.simulator.trace.trace import Trace, read_trace
from freshkeeper.simulator.trace.workload import generate

PAPER_EVALUATIONS = 50
MOST_EVALUATIONS = 1_000_000
"""With a trace, unless more are asked for: a task keeps the rows of all of them, about 10 KB each."""
TABLES = ("evaluations", "refreshes", "answers", "changes")
PARTS = "parts"
"""The directory of parts in a run directory; it is removed when all runs are finished."""
FINISHED = "parts.parquet"
"""The summaries of all parts of a run that is complete."""
SCHEMA = pa.schema({"part": pa.string(), **dict.fromkeys(TABLES, pa.large_binary())})
PACKED = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
UNPACKED = ipc.IpcReadOptions(use_threads=False)
"""Handing small columns to threads takes ten times as long as unpacking them."""


class TablePlace(NamedTuple):
    """A row of a file of parts, which holds the tables of a run, and the name that they have for its setting."""

    file: str
    row: int
    setting: str


@dataclass(frozen=True)
class RunPart:
    """The summary of a finished run, without its tables."""

    digest: str
    """of its setting"""
    setting: str
    seed: int
    numbers: dict[str, dict[str, Any]]
    """by policy"""
    bound: float | None
    why_no_bound: str
    baselines: list[dict[str, Any]] = field(default_factory=list)
    why_no_baselines: str = ""
    changes: int = 0
    """how often entries changed, from the first evaluation to the last"""
    places: tuple[TablePlace, ...] = ()
    reused: bool = False
    """it was there before this process began"""

    @property
    def run(self) -> tuple[str, int]:
        """The digest of the setting and the seed, which name the run."""
        return self.digest, self.seed

    def joined(self, later: "RunPart") -> "RunPart":
        """Return this part with the policies of a later one of the same run."""
        return replace(self, numbers={**self.numbers, **later.numbers}, places=(*self.places, *later.places))


@dataclass(frozen=True)
class Job:
    """A run to be done in some process: the policies of one setting with one seed that are not finished."""

    setting: GridSetting
    seed: int
    policies: tuple[PolicySettings, ...]
    place: Path
    first: bool = True
    """false if a part of this run is there already, with the bound, the baselines and the changes"""


PartRow = dict[str, str | bytes | None]
"""A part as a row of a file: its summary as JSON, and its tables."""


def perform(job: Job) -> RunPart:
    """Do one run, and write it as a file."""
    return write_parts(job.place, content([perform_row(job, recorded_trace)]))[0]


def perform_row(job: Job, recorded: Callable[[Path], Trace]) -> PartRow:
    """Do one run and return it as a row; `recorded` reads traces."""
    setting = job.setting
    task = Task(setting, job.seed, *_trace(setting, job.seed, recorded))
    outcomes = [task.run(policy) for policy in job.policies]
    part = RunPart(
        digest=setting.digest,
        setting=setting.name,
        seed=job.seed,
        numbers={outcome.policy: _numbers(outcome) for outcome in outcomes},
        bound=None,
        why_no_bound="",
    )
    tables = _tables(outcomes)
    if job.first:
        bound, why_no_bound = task.bound()
        baselines, why_no_baselines = cache_baselines(task)
        changes = task.changes()
        tables["changes"] = [changes]
        part = replace(
            part,
            bound=bound,
            why_no_bound=why_no_bound,
            baselines=baselines,
            why_no_baselines=why_no_baselines,
            changes=changes.num_rows,
        )
    return _part_row(part, tables)


def _part_row(part: RunPart, tables: Mapping[str, list[pa.Table]]) -> PartRow:
    packed: PartRow = {name: _packed(table) for name, table in tables.items()}
    return packed | {"part": _as_json(part)}


def _as_json(part: RunPart) -> str:
    return json.dumps(asdict(replace(part, places=(), reused=False)))


def content(rows: list[PartRow]) -> bytes:
    """Return the bytes of a file of several parts."""
    return _packed([pa.Table.from_pylist(rows, SCHEMA)], ipc.IpcWriteOptions())


def write_parts(place: Path, parts: bytes) -> list[RunPart]:
    """Write a file of parts and return their summaries; a kill leaves all of them or none."""
    with atomic_file(place) as unfinished:
        unfinished.write_bytes(parts)
    return read_parts(place)


def read_parts(file: Path) -> list[RunPart]:
    """Read the summaries of finished runs."""
    found = []
    for row, text in enumerate(opened(file)["part"].to_pylist()):
        part = RunPart(**json.loads(text))
        found.append(replace(part, places=(TablePlace(str(file), row, part.setting),)))
    return found


def finished_parts(out: Path) -> dict[tuple[str, int], RunPart]:
    """Return what is finished in a run directory, by setting and seed."""
    found: dict[tuple[str, int], RunPart] = {}
    for file in sorted((out / PARTS).glob("*.arrow")):
        for part in read_parts(file):
            known = found.get(part.run)
            found[part.run] = replace(part, reused=True) if known is None else known.joined(part)
    return found


def write_finished(out: Path, parts: Iterable[RunPart]) -> None:
    """Write the summaries of all runs beside their tables, so that a finished run directory can be extended."""
    table = pa.table({"part": [_as_json(part) for part in parts]})
    with atomic_file(out / FINISHED) as unfinished:
        parquet.write_table(table, unfinished, compression="zstd")


def split_finished(out: Path) -> None:
    """Write the runs of a finished run directory as parts again, as they were before their tables were joined.

    Tables have runs in the order of the summaries, and a run may have no row in one of them.
    """
    streams = {name: _by_run(out / f"{name}.parquet") for name in TABLES if (out / f"{name}.parquet").exists()}
    ahead = {name: next(stream, None) for name, stream in streams.items()}
    for text in parquet.read_table(out / FINISHED)["part"].to_pylist():
        part = RunPart(**json.loads(text))
        tables: dict[str, list[pa.Table]] = {}
        for name, stream in streams.items():
            tables[name] = [journal.SCHEMAS[name].empty_table()]
            found = ahead[name]
            while found is not None and found[0] == (part.setting, part.seed):
                tables[name].append(found[1])
                found = ahead[name] = next(stream, None)
        write_parts(out / PARTS / f"{part.digest}-{part.seed}.arrow", content([_part_row(part, tables)]))


def _by_run(file: Path) -> Iterator[tuple[tuple[str, int], pa.Table]]:
    """Yield the rows of a table, those of one setting and seed together or in several pieces."""
    for batch in parquet.ParquetFile(file).iter_batches():
        table = pa.Table.from_batches([batch])
        seeds, names = table["seed"].to_numpy(), table["setting"].to_numpy()
        new = np.flatnonzero((names[1:] != names[:-1]) | (seeds[1:] != seeds[:-1])) + 1
        for begin, end in pairwise([0, *new.tolist(), table.num_rows]):
            if begin < end:
                yield (str(names[begin]), int(seeds[begin])), table.slice(begin, end - begin)


def task_of(experiment: Experiment, index: int, seed: int) -> Task:
    """Return the task of one setting and one seed."""
    setting = settings_of(experiment)[index]
    return Task(setting, seed, *_trace(setting, seed, recorded_trace))


def opened(file: Path | str) -> pa.Table:
    """Open the parts of a file; tables are read when they are accessed."""
    return ipc.open_file(pa.memory_map(str(file))).read_all()


def unpacked(table: pa.Buffer) -> pa.Table:
    """Unpack one table of a part."""
    return ipc.open_file(table, options=UNPACKED).read_all()


def handles(policy: PolicySettings, setting: GridSetting) -> bool:
    """Tell whether a setting runs a policy."""
    kind = find(policy.name)
    return setting.case in kind.cases and setting.knowledge in kind.knowledge


def _trace(setting: GridSetting, seed: int, recorded: Callable[[Path], Trace]) -> tuple[Trace, int]:
    """Return the trace of a seed, and its number of evaluations."""
    chosen = setting.experiment
    if chosen.trace is not None:
        trace = recorded(chosen.trace)
        return trace, evaluations_of(chosen, trace)
    evaluations = evaluations_of(chosen, None)
    workload = chosen.workload.model_copy(update={"duration_ms": evaluations * chosen.step})
    return generate(workload, seed), evaluations


def evaluations_of(chosen: Experiment, trace: Trace | None) -> int:
    """Return the number of evaluations: as given, or the steps of the trace; refuse a number that never ends."""
    if trace is None:
        given = "duration_ms" in chosen.workload.model_fields_set
        steps = max(1, chosen.workload.duration_ms // chosen.step) if given else PAPER_EVALUATIONS
        return chosen.evaluations or steps
    whole = max(1, int(trace.arrivals.t_ms[-1] - trace.t0) // chosen.step)
    if chosen.evaluations is None and whole > MOST_EVALUATIONS:
        step = suggested_step(trace)
        window, good, wanted = (to_unit(ms) for ms in (step * STEPS_PER_WINDOW, step, chosen.step))
        raise ConfigError(
            f"{chosen.trace} has {whole:,} evaluations with a step of {wanted}, more than {MOST_EVALUATIONS:,}; "
            f"its arrivals suggest --window {window} --step {good}, or say how many with --evaluations"
        )
    return chosen.evaluations or whole


@lru_cache(maxsize=2)
def recorded_trace(path: Path) -> Trace:
    """Read a trace, and keep the last ones in memory."""
    return read_trace(path)


def _numbers(outcome: Outcome) -> dict[str, Any]:
    headline = headline_of_table(outcome.tables["evaluations"])
    return {
        "freshness": number_or_none(headline.freshness),
        "fresh": headline.fresh,
        "results": headline.results,
        "evaluations": outcome.tables["evaluations"].num_rows,
        "spent": outcome.spent,
        "requests": outcome.requests,
        "over_budget": outcome.over_budget,
        "seconds": outcome.seconds,
        "late": outcome.late,
        "events": outcome.events,
    }


def _packed(tables: list[pa.Table], how: ipc.IpcWriteOptions = PACKED) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, tables[0].schema, options=how) as file:
        for table in tables:
            file.write_table(table)
    return sink.getvalue().to_pybytes()


def _tables(outcomes: list[Outcome]) -> dict[str, list[pa.Table]]:
    found: dict[str, list[pa.Table]] = {}
    for outcome in outcomes:
        for name, table in outcome.tables.items():
            found.setdefault(name, []).append(table)
    return found
