"""The parts of an experiment: one for every run, which is one setting with one seed and all its policies.

A part is a directory, there whole or not at all, so that a kill at any moment leaves what was finished. Its tables are
Arrow's own files: small ones cost a tenth of what Parquet's do, and nobody reads them but `run_tables`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from freshkeeper.maintenance.files import whole_directory
from freshkeeper.maintenance.settings.durations import to_unit
from freshkeeper.policies.errors import ConfigError
from freshkeeper.policies.registry import find
from freshkeeper.simulator.budget.cache_baselines import cache_baselines
from freshkeeper.simulator.experiment.experiment_config import Experiment, PolicySettings, Setting, settings_of
from freshkeeper.simulator.experiment.summary import of_seed
from freshkeeper.simulator.trace.describe import STEPS_PER_WINDOW, suggested_step
from freshkeeper.simulator.trace.trace import Trace, read_trace
from freshkeeper.simulator.trace.workload import generate
from freshkeeper.simulator.world.task import Outcome, Task

PAPER_EVALUATIONS = 50
MOST_EVALUATIONS = 1_000_000
"""With a trace, unless more are asked for: a task keeps the rows of all of them, about 10 KB each."""
TABLES = ("evaluations", "refreshes", "answers", "changes")
PART = "part.json"
PACKED = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
UNPACKED = ipc.IpcReadOptions(use_threads=False)
"""Handing small columns to threads takes ten times as long as unpacking them."""


@dataclass(frozen=True)
class Part:
    """What is known of a finished run without opening its tables."""

    index: int
    seed: int
    numbers: dict[str, dict[str, Any]]
    bound: float | None
    why_no_bound: str
    baselines: list[dict[str, Any]] = field(default_factory=list)
    why_no_baselines: str = ""


@dataclass(frozen=True)
class Job:
    """One run to be done in some process."""

    setting: Setting
    index: int
    seed: int
    place: Path


def perform(job: Job, recorded: Callable[[Path], Trace] | None = None) -> Part:
    """Do one run, or read what an earlier run of it left; `recorded` knows traces that are not on this machine."""
    if done(job):
        return read_part(job)
    setting = job.setting
    task = Task(setting, job.seed, *_trace(setting, job.seed, recorded or recorded_trace))
    outcomes = [task.run(policy) for policy in setting.experiment.policies if handles(policy, setting)]
    bound, why = task.bound()
    numbers = {outcome.policy: _numbers(outcome) for outcome in outcomes}
    part = Part(job.index, job.seed, numbers, bound, why, *cache_baselines(task))
    _write_part(job.place, task, outcomes, part)
    return part


def task_of(experiment: Experiment, index: int, seed: int, recorded: Callable[[Path], Trace] | None = None) -> Task:
    """One setting of an experiment with one seed, and its trace."""
    setting = settings_of(experiment)[index]
    return Task(setting, seed, *_trace(setting, seed, recorded or recorded_trace))


def done(job: Job) -> bool:
    """Whether an earlier run left this run's part."""
    return table_of(job.place, TABLES[0]).exists()


def read_part(job: Job) -> Part:
    """What is known of a run that is finished."""
    return Part(**json.loads((job.place / PART).read_text()))


def table_of(place: Path, name: str) -> Path:
    """Where a part has one of its tables, if it has that."""
    return place / f"{name}.arrow"


def read_table(place: Path, name: str) -> pa.Table:
    """One table of a part."""
    return ipc.open_file(table_of(place, name).read_bytes(), options=UNPACKED).read_all()


def handles(policy: PolicySettings, setting: Setting) -> bool:
    """Whether a setting runs a policy."""
    kind = find(policy.name)
    return setting.case in kind.cases and setting.knowledge in kind.knowledge


def _trace(setting: Setting, seed: int, recorded: Callable[[Path], Trace]) -> tuple[Trace, int]:
    """The trace of a seed, and how many evaluations it gets."""
    chosen = setting.experiment
    if chosen.trace is None:
        given = "duration_ms" in chosen.workload.model_fields_set
        whole = max(1, chosen.workload.duration_ms // chosen.step) if given else PAPER_EVALUATIONS
        evaluations = chosen.evaluations or whole
        workload = chosen.workload.model_copy(update={"duration_ms": evaluations * chosen.step})
        return generate(workload, seed), evaluations
    trace = recorded(chosen.trace)
    return trace, evaluations_of(chosen, trace)


def evaluations_of(chosen: Experiment, trace: Trace) -> int:
    """As many as a recorded trace has steps, where it is not said how many; so many that no run ends are a slip."""
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
    """A trace of this machine."""
    return read_trace(path)


def _numbers(outcome: Outcome) -> dict[str, Any]:
    return {
        **of_seed(outcome.tables["evaluations"]),
        "evaluations": outcome.tables["evaluations"].num_rows,
        "spent": outcome.spent,
        "requests": outcome.requests,
        "over_budget": outcome.over_budget,
        "seconds": outcome.seconds,
        "late": outcome.late,
        "events": outcome.events,
    }


def _write_part(place: Path, task: Task, outcomes: list[Outcome], part: Part) -> None:
    """A kill leaves a whole part or none."""
    with whole_directory(place) as unfinished:
        for name, tables in _tables(task, outcomes):
            with ipc.new_file(table_of(unfinished, name), tables[0].schema, options=PACKED) as file:
                file.write_table(pa.concat_tables(tables))
        (unfinished / PART).write_text(json.dumps(asdict(part)))


def _tables(task: Task, outcomes: list[Outcome]) -> Iterator[tuple[str, list[pa.Table]]]:
    for name in TABLES:
        tables = [outcome.tables[name] for outcome in outcomes if name in outcome.tables]
        if name == "changes":
            tables = [task.changes()]
        if tables:
            yield name, tables
