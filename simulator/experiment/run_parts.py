"""The parts of an experiment: one for every run, which is one setting with one seed and all its policies.

A file has one part, or those of several runs that were done together. It is there whole or not at all, so that a kill
at any moment leaves what was finished. Tables in it are Arrow's own files: small ones cost a tenth of what Parquet's
do, and nobody reads them but `run_tables`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from freshkeeper.maintenance.analysis.headline import headline_of_table
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.policies.registry import find
from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting, PolicySettings, settings_of
from freshkeeper.simulator.experiment.summary import number_or_none
from freshkeeper.simulator.experiment.task import Outcome, Task
from freshkeeper.simulator.experiment.ttl_caches.cache_baselines import cache_baselines
from freshkeeper.simulator.trace.describe import STEPS_PER_WINDOW, suggested_step
from freshkeeper.simulator.trace.trace import Trace, read_trace
from freshkeeper.simulator.trace.workload import generate

PAPER_EVALUATIONS = 50
MOST_EVALUATIONS = 1_000_000
"""With a trace, unless more are asked for: a task keeps the rows of all of them, about 10 KB each."""
TABLES = ("evaluations", "refreshes", "answers", "changes")
SCHEMA = pa.schema({"part": pa.string(), **dict.fromkeys(TABLES, pa.large_binary())})
PACKED = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
UNPACKED = ipc.IpcReadOptions(use_threads=False)
"""Handing small columns to threads takes ten times as long as unpacking them."""


@dataclass(frozen=True)
class RunPart:
    """The summary of a finished run, without its tables."""

    index: int
    seed: int
    numbers: dict[str, dict[str, Any]]
    bound: float | None
    why_no_bound: str
    baselines: list[dict[str, Any]] = field(default_factory=list)
    why_no_baselines: str = ""
    file: str = ""
    row: int = 0
    """Where its tables are."""


@dataclass(frozen=True)
class Job:
    """A run to be done in some process."""

    setting: GridSetting
    index: int
    seed: int
    place: Path


PartRow = dict[str, str | bytes | None]
"""A part as a row of a file: its summary as JSON, and its tables."""


def perform(job: Job) -> RunPart:
    """Do one run, and write it as a file."""
    return write_parts(job.place, content([perform_row(job, recorded_trace)]))[0]


def perform_row(job: Job, recorded: Callable[[Path], Trace]) -> PartRow:
    """Do one run and return it as a row; `recorded` reads traces."""
    setting = job.setting
    task = Task(setting, job.seed, *_trace(setting, job.seed, recorded))
    outcomes = [task.run(policy) for policy in setting.experiment.policies if handles(policy, setting)]
    bound, why_no_bound = task.bound()
    baselines, why_no_baselines = cache_baselines(task)
    part = RunPart(
        index=job.index,
        seed=job.seed,
        numbers={outcome.policy: _numbers(outcome) for outcome in outcomes},
        bound=bound,
        why_no_bound=why_no_bound,
        baselines=baselines,
        why_no_baselines=why_no_baselines,
    )
    row: PartRow = {"part": json.dumps(asdict(part))}
    for name, tables in _tables(task, outcomes):
        row[name] = _packed(tables)
    return row


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
    texts = opened(file)["part"].to_pylist()
    return [replace(RunPart(**json.loads(text)), file=str(file), row=row) for row, text in enumerate(texts)]


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
    if chosen.trace is None:
        given = "duration_ms" in chosen.workload.model_fields_set
        evaluations_of_trace = max(1, chosen.workload.duration_ms // chosen.step) if given else PAPER_EVALUATIONS
        evaluations = chosen.evaluations or evaluations_of_trace
        workload = chosen.workload.model_copy(update={"duration_ms": evaluations * chosen.step})
        return generate(workload, seed), evaluations
    trace = recorded(chosen.trace)
    return trace, evaluations_of(chosen, trace)


def evaluations_of(chosen: Experiment, trace: Trace) -> int:
    """Return the number of evaluations: as given, or the steps of the trace; refuse a number that never ends."""
    whole = max(1, int(trace.arrivals.t_ms[-1] - trace.t0) // chosen.step)
    if chosen.evaluations is None and whole > MOST_EVALUATIONS:
        step = suggested_step(trace)
        window, good, given = (to_unit(ms) for ms in (step * STEPS_PER_WINDOW, step, chosen.step))
        raise ConfigError(
            f"{chosen.trace} has {whole:,} evaluations with a step of {given}, more than {MOST_EVALUATIONS:,}; "
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


def _tables(task: Task, outcomes: list[Outcome]) -> Iterator[tuple[str, list[pa.Table]]]:
    for name in TABLES:
        tables = [outcome.tables[name] for outcome in outcomes if name in outcome.tables]
        if name == "changes":
            tables = [task.changes()]
        if tables:
            yield name, tables
