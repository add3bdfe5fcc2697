"""A whole experiment: tasks over processes, parts that survive a kill, and the run directory they end in.

Every (setting, seed) is one task and writes one part, whole or not at all. A run that was stopped goes on with
`resume`; the tables are put together in the order of tasks, so they do not depend on who finished first.
"""

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pyarrow import parquet

from maintenance import journal
from policies.errors import BadSelectionError, ConfigError
from policies.registry import find
from simulator.config import Experiment, PolicySettings, Setting, settings_of
from simulator.run import Outcome, Task
from simulator.summary import Row, SeedResult, mean_and_ci, pooled, seed_result, write_summary
from simulator.trace import Trace, read_trace
from simulator.workload import generate

PAPER_EVALUATIONS = 50
TABLES = ("evaluations", "refreshes", "answers", "changes")


@dataclass(frozen=True)
class Part:
    """What is known of a finished task without opening its tables."""

    index: int
    seed: int
    numbers: dict[str, dict[str, Any]]
    bound: float | None
    why_no_bound: str


@dataclass(frozen=True)
class Job:
    """One task to be done in some process."""

    experiment: Experiment
    index: int
    seed: int
    place: Path


Progress = Callable[[Part, int, int], None]


def simulate(
    experiment: Experiment,
    out: Path,
    command: str = "",
    jobs: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Run everything that is not done yet, then put the run directory together."""
    settings = settings_of(experiment)
    policies = runnable(experiment, settings)
    _prepare(experiment, settings, out, command, resume)
    todo = [
        Job(experiment, index, seed, out / "parts" / f"{index:05d}-{seed}")
        for index in range(len(settings))
        for seed in experiment.seed_list
    ]
    parts: dict[tuple[int, int], Part] = {}
    for part in _performed(todo, jobs):
        parts[part.index, part.seed] = part
        if progress is not None:
            progress(part, len(parts), len(todo))
    rows = _put_together(settings, policies, out, [parts[job.index, job.seed] for job in todo])
    write_summary(out / "summary.csv", rows)
    _write_run(out, experiment, settings, command, parts)
    shutil.rmtree(out / "parts")
    return rows


def runnable(experiment: Experiment, settings: list[Setting]) -> dict[str, list[PolicySettings]]:
    """Which policies each setting runs; one that no setting can run is an error."""
    fitting = {
        setting.name: [policy for policy in experiment.policies if _handles(policy, setting)] for setting in settings
    }
    for policy in experiment.policies:
        if not any(policy in chosen for chosen in fitting.values()):
            kind = find(policy.name)
            raise BadSelectionError(
                f"the policy {policy.title!r} handles case {', '.join(sorted(kind.cases))} with "
                f"{', '.join(sorted(kind.knowledge))} knowledge; this run has neither together"
            )
        policy.make()
    return fitting


def perform(job: Job) -> Part:
    """Do one task, or read what an earlier run of it left."""
    finished = job.place / "part.json"
    if finished.exists():
        return Part(**json.loads(finished.read_text()))
    setting = settings_of(job.experiment)[job.index]
    task = Task(setting, job.seed, *_trace(setting, job.seed))
    outcomes = [task.run(policy) for policy in setting.experiment.policies if _handles(policy, setting)]
    bound, why = task.bound()
    part = Part(job.index, job.seed, {outcome.policy: _numbers(outcome) for outcome in outcomes}, bound, why)
    _write_part(job.place, task, outcomes, part)
    return part


def _performed(todo: list[Job], jobs: int) -> Iterator[Part]:
    if jobs == 1:
        yield from map(perform, todo)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(perform, job) for job in todo]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _handles(policy: PolicySettings, setting: Setting) -> bool:
    kind = find(policy.name)
    return setting.case in kind.cases and setting.knowledge in kind.knowledge


def _trace(setting: Setting, seed: int) -> tuple[Trace, int]:
    """The trace of a seed, and how many evaluations it gets."""
    chosen = setting.experiment
    if chosen.trace is None:
        evaluations = chosen.evaluations or PAPER_EVALUATIONS
        workload = chosen.workload.model_copy(update={"duration_ms": evaluations * chosen.step})
        return generate(workload, seed), evaluations
    trace = _recorded(chosen.trace)
    whole = int(trace.arrivals.t_ms[-1] - trace.t0) // chosen.step
    return trace, chosen.evaluations or max(1, whole)


@lru_cache(maxsize=2)
def _recorded(path: Path) -> Trace:
    return read_trace(path)


def _numbers(outcome: Outcome) -> dict[str, Any]:
    result = seed_result(outcome.tables["evaluations"])
    return {
        **asdict(result),
        "evaluations": outcome.tables["evaluations"].num_rows,
        "spent": outcome.spent,
        "requests": outcome.requests,
        "over_budget": outcome.over_budget,
        "seconds": outcome.seconds,
        "late": outcome.late,
        "events": outcome.events,
    }


def _write_part(place: Path, task: Task, outcomes: list[Outcome], part: Part) -> None:
    """All of it under another name first, so that a kill leaves a whole part or none."""
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    for name in TABLES:
        tables = [outcome.tables[name] for outcome in outcomes if name in outcome.tables]
        if name == "changes":
            tables = [task.changes()]
        if tables:
            journal.write(unfinished, name, tables)
    (unfinished / "part.json").write_text(json.dumps(asdict(part)))
    shutil.rmtree(place, ignore_errors=True)
    unfinished.rename(place)


def _prepare(experiment: Experiment, settings: list[Setting], out: Path, command: str, resume: bool) -> None:
    known = out / "run.json"
    if known.exists():
        if not resume:
            raise ConfigError(f"{out} holds a run already; go on with it (--resume) or name another directory (--out)")
        if json.loads(known.read_text())["config"] != _plain(experiment):
            raise ConfigError(f"{out} holds a run of another config; name another directory (--out)")
    elif out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty and holds no run; name another directory (--out)")
    (out / "parts").mkdir(parents=True, exist_ok=True)
    if not known.exists():
        _write_run(out, experiment, settings, command, {})


def _put_together(
    settings: list[Setting],
    policies: dict[str, list[PolicySettings]],
    out: Path,
    parts: list[Part],
) -> list[Row]:
    for name in TABLES:
        files = [out / "parts" / f"{part.index:05d}-{part.seed}" / f"{name}.parquet" for part in parts]
        _merge(out, name, [file for file in files if file.exists()])
    return [
        _row(setting, policy, [part for part in parts if part.index == index])
        for index, setting in enumerate(settings)
        for policy in policies[setting.name]
    ]


def _merge(out: Path, name: str, files: list[Path]) -> None:
    """Part by part, so that memory holds one of them."""
    if not files:
        return
    unfinished = out / f".{name}.parquet.part"
    with parquet.ParquetWriter(str(unfinished), journal.SCHEMAS[name], compression="zstd") as writer:
        for file in files:
            writer.write_table(parquet.read_table(file))
    unfinished.replace(out / f"{name}.parquet")


def _row(setting: Setting, policy: PolicySettings, parts: list[Part]) -> Row:
    numbers = [part.numbers[policy.title] for part in parts]
    seeds = [SeedResult(n["freshness"], n["fresh"], n["results"]) for n in numbers]
    freshness, ci95 = mean_and_ci([seed.freshness for seed in seeds if seed.freshness is not None])
    ratio, stale, answers = pooled(seeds)
    bounds = [part.bound for part in parts if part.bound is not None]
    bound = sum(bounds) / len(bounds) if len(bounds) == len(parts) else None
    evaluations = sum(n["evaluations"] for n in numbers)
    return Row(
        setting=setting.name,
        policy=policy.title,
        case=setting.case.value,
        knowledge=setting.knowledge.value,
        budget=float(setting.rule.per_evaluation),
        bank=float(setting.rule.bank),
        seeds=len(parts),
        freshness=freshness,
        ci95=ci95,
        pooled=ratio,
        stale_answers=stale,
        answers=answers,
        spent=sum(n["spent"] for n in numbers),
        requests_per_evaluation=sum(n["requests"] for n in numbers) / evaluations,
        share_of_bound=freshness / bound if bound and freshness is not None else None,
        over_budget=any(n["over_budget"] for n in numbers),
        seconds=sum(n["seconds"] for n in numbers),
    )


def _write_run(
    out: Path, experiment: Experiment, settings: list[Setting], command: str, parts: dict[tuple[int, int], Part]
) -> None:
    why = next((part.why_no_bound for part in parts.values() if part.bound is None), "")
    text = {
        "freshkeeper": version("freshkeeper"),
        "versions": {name: version(name) for name in ("numpy", "scipy", "numba", "pyarrow", "simpy", "highspy")}
        | {"python": platform.python_version()},
        "command": command,
        "complete": bool(parts),
        "config": _plain(experiment),
        "seeds": experiment.seed_list,
        "settings": {setting.name: _described(setting) for setting in settings},
        "policies": {policy.title: _declared(policy) for policy in experiment.policies},
        "bound": {"included": bool(parts) and not why, "reason": why},
    }
    unfinished = out / ".run.json.part"
    unfinished.write_text(json.dumps(text, indent=2))
    unfinished.replace(out / "run.json")


def _described(setting: Setting) -> dict[str, Any]:
    chosen = setting.experiment
    return {
        "varied": setting.varied,
        "budget": float(setting.rule.per_evaluation),
        "bank": float(setting.rule.bank),
        "case": setting.case.value,
        "knowledge": setting.knowledge.value,
        "range_ms": chosen.window,
        "step_ms": chosen.step,
        "start": chosen.start,
        "evaluations": chosen.evaluations,
    }


def _declared(policy: PolicySettings) -> dict[str, Any]:
    made = policy.make()
    return {"name": policy.name, "settings": policy.settings, "honest": made.honest, "is_bound": made.is_bound}


def _plain(experiment: Experiment) -> dict[str, Any]:
    plain: dict[str, Any] = experiment.model_dump(mode="json")
    return plain
