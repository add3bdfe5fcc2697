"""A whole experiment: tasks over processes, parts that survive a kill, and the run directory they end in.

Every (setting, seed) is one task and writes one part, whole or not at all. A run that was stopped goes on with
`resume`; the tables are put together in the order of tasks, so they do not depend on who finished first.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from pyarrow import parquet

from freshkeeper.maintenance.files import whole, whole_directory
from freshkeeper.maintenance.journal import journal, run_json
from freshkeeper.maintenance.journal.run_json import About, BoundNote, Contender, RunError
from freshkeeper.maintenance.settings.addresses import shown_in
from freshkeeper.maintenance.settings.durations import to_unit
from freshkeeper.policies.errors import ConfigError, FreshkeeperError
from freshkeeper.policies.registry import find
from freshkeeper.simulator.budget.beside import beside
from freshkeeper.simulator.experiment.baselines import Baseline, baselines_of, write_baselines
from freshkeeper.simulator.experiment.experiment_config import Experiment, PolicySettings, Setting, settings_of
from freshkeeper.simulator.experiment.summary import Row, mean_and_ci, of_seed, read_summary, write_summary
from freshkeeper.simulator.trace.describe import STEPS_PER_WINDOW, suggested_step
from freshkeeper.simulator.trace.trace import Trace, read_trace
from freshkeeper.simulator.trace.workload import generate
from freshkeeper.simulator.world.task import Outcome, Task

PAPER_EVALUATIONS = 50
MOST_EVALUATIONS = 1_000_000
"""With a trace, unless more are asked for: a task keeps the rows of all of them, about 10 KB each."""
TABLES = ("evaluations", "refreshes", "answers", "changes")
PART = "part.json"


@dataclass(frozen=True)
class Part:
    """What is known of a finished task without opening its tables."""

    index: int
    seed: int
    numbers: dict[str, dict[str, Any]]
    bound: float | None
    why_no_bound: str
    baselines: list[dict[str, Any]] = field(default_factory=list)
    why_no_baselines: str = ""


@dataclass(frozen=True)
class Job:
    """One task to be done in some process."""

    experiment: Experiment
    index: int
    seed: int
    place: Path


Progress = Callable[[Part, int, int], None]
Performed = Callable[[list[Job]], Iterator[Part]]
"""Does all tasks somewhere, and gives the parts in whatever order."""


def simulate(
    experiment: Experiment,
    out: Path,
    command: str = "",
    jobs: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
    performed: Performed | None = None,
) -> list[Row]:
    """Run everything that is not done yet, then put the run directory together.

    `performed` says where tasks are done; by default in so many processes of this machine.
    """
    settings = settings_of(experiment)
    policies = runnable(settings)
    for setting in sorted(settings, key=lambda setting: str(setting.experiment.trace)):
        if setting.experiment.trace is not None:  # what cannot be read or done must not leave a run directory
            _evaluations(setting.experiment, _recorded(setting.experiment.trace))
    known = _prepare(experiment, out, resume)
    if known is not None and known.complete:
        return read_summary(out / "summary.csv")
    if known is not None:
        command = known.command
    else:
        _write_run(out, experiment, settings, command, {})
    todo = [
        Job(experiment, index, seed, out / "parts" / f"{index:05d}-{seed}")
        for index in range(len(settings))
        for seed in experiment.seed_list
    ]
    parts: dict[tuple[int, int], Part] = {}
    for part in performed(todo) if performed else _performed(todo, jobs):
        parts[part.index, part.seed] = part
        if progress is not None:
            progress(part, len(parts), len(todo))
    ordered = [parts[job.index, job.seed] for job in todo]
    rows = _put_together(settings, policies, out, ordered)
    write_baselines(out, _baselines(settings, ordered))
    write_summary(out / "summary.csv", rows)
    _write_run(out, experiment, settings, command, parts)
    shutil.rmtree(out / "parts")
    return rows


def runnable(settings: list[Setting]) -> dict[str, list[PolicySettings]]:
    """Which policies each setting runs; one that no setting can run is an error."""
    fitting = {setting.name: [p for p in setting.experiment.policies if _handles(p, setting)] for setting in settings}
    running = {policy.title for chosen in fitting.values() for policy in chosen}
    for policy in _policies(settings).values():
        policy.make()
        if policy.title not in running:
            kind = find(policy.name)
            raise ConfigError(
                f"the policy {policy.title!r} handles {_listed(kind.cases)} with {_listed(kind.knowledge)} knowledge; "
                "no setting of this run has such a case with such knowledge"
            )
    return fitting


def _policies(settings: list[Setting]) -> dict[str, PolicySettings]:
    """Every policy of the run by title."""
    return {policy.title: policy for setting in settings for policy in setting.experiment.policies}


def _listed(words: Iterable[str]) -> str:
    return " or ".join(sorted(words))


def perform(job: Job, recorded: Callable[[Path], Trace] | None = None) -> Part:
    """Do one task, or read what an earlier run of it left; `recorded` knows traces that are not on this machine."""
    if done(job):
        return Part(**json.loads((job.place / PART).read_text()))
    task = task_of(job.experiment, job.index, job.seed, recorded)
    setting = task.setting
    outcomes = [task.run(policy) for policy in setting.experiment.policies if _handles(policy, setting)]
    bound, why = task.bound()
    numbers = {outcome.policy: _numbers(outcome) for outcome in outcomes}
    part = Part(job.index, job.seed, numbers, bound, why, *beside(task))
    _write_part(job.place, task, outcomes, part)
    return part


def task_of(experiment: Experiment, index: int, seed: int, recorded: Callable[[Path], Trace] | None = None) -> Task:
    """One setting of an experiment with one seed, and its trace."""
    setting = settings_of(experiment)[index]
    return Task(setting, seed, *_trace(setting, seed, recorded or _recorded))


def done(job: Job) -> bool:
    """Whether an earlier run left this task's part."""
    return (job.place / PART).exists()


def _performed(todo: list[Job], jobs: int) -> Iterator[Part]:
    if min(jobs, len(todo)) == 1:
        yield from map(perform, todo)
        return
    others = active_children()
    with ProcessPoolExecutor(min(jobs, len(todo)), get_context("spawn"), follow_parent) as pool:
        waiting = [pool.submit(perform, job) for job in todo]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                if child not in others:
                    child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise FreshkeeperError(
                    "a process of the run was killed, perhaps for want of memory; "
                    "what is finished is kept: go on with --resume, with fewer --jobs"
                ) from None
            raise


def follow_parent() -> None:
    """A process of the pool leaves interrupts to its parent, and ends with it even where that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _handles(policy: PolicySettings, setting: Setting) -> bool:
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
    return trace, _evaluations(chosen, trace)


def _evaluations(chosen: Experiment, trace: Trace) -> int:
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
def _recorded(path: Path) -> Trace:
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
        for name in TABLES:
            tables = [outcome.tables[name] for outcome in outcomes if name in outcome.tables]
            if name == "changes":
                tables = [task.changes()]
            if tables:
                journal.write(unfinished, name, tables)
        (unfinished / PART).write_text(json.dumps(asdict(part)))


def _prepare(experiment: Experiment, out: Path, resume: bool) -> About | None:
    """Make the run directory, or find that it is ours to go on with; gives what its run.json says then."""
    about = None
    if (out / run_json.FILE).exists():
        if not resume:
            raise ConfigError(f"{out} holds a run already; go on with it (--resume) or name another directory (--out)")
        about = _begun(out)
        if about.config != shown_in(_plain(experiment)):
            raise ConfigError(f"{out} holds a run of another config; name another directory (--out)")
        if about.complete:
            shutil.rmtree(out / "parts", ignore_errors=True)
            return about
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        what = "is not empty and holds no run" if out.is_dir() else "is a file"
        raise ConfigError(f"{out} {what}; name another directory (--out)")
    try:
        (out / "parts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made: {error.strerror}; name another directory (--out)") from None
    return about


def _begun(out: Path) -> About:
    with suppress(RunError):
        about = About.read(out)
        if about is not None and about.freshkeeper:
            return about
    raise ConfigError(f"{out / run_json.FILE} is not of a run of freshkeeper; name another directory (--out)")


def _put_together(
    settings: list[Setting], policies: dict[str, list[PolicySettings]], out: Path, parts: list[Part]
) -> list[Row]:
    for name in TABLES:
        files = [out / "parts" / f"{part.index:05d}-{part.seed}" / f"{name}.parquet" for part in parts]
        _merge(out, name, [file for file in files if file.exists()])
    return [
        _row(setting, policy, [part for part in parts if part.index == index])
        for index, setting in enumerate(settings)
        for policy in policies[setting.name]
    ]


def _baselines(settings: list[Setting], parts: list[Part]) -> list[Baseline]:
    every = [baselines_of(s, [p.baselines for p in parts if p.index == n]) for n, s in enumerate(settings)]
    return [row for rows in every for row in rows]


def _merge(out: Path, name: str, files: list[Path]) -> None:
    """Part by part, so that memory holds one of them."""
    if not files:
        return
    with (
        whole(out / f"{name}.parquet") as unfinished,
        parquet.ParquetWriter(str(unfinished), journal.SCHEMAS[name], compression="zstd") as writer,
    ):
        for file in files:
            writer.write_table(parquet.read_table(file))


def _row(setting: Setting, policy: PolicySettings, parts: list[Part]) -> Row:
    numbers = [part.numbers[policy.title] for part in parts]
    freshness, ci95 = mean_and_ci([n["freshness"] for n in numbers if n["freshness"] is not None])
    fresh, answers = (sum(n[name] for n in numbers) for name in ("fresh", "results"))
    bounds = [part.bound for part in parts if part.bound is not None]
    held_to_it = getattr(find(policy.name), "budgeted", True)  # the bound is of a budget
    bound = sum(bounds) / len(bounds) if held_to_it and len(bounds) == len(parts) else None
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
        pooled=fresh / answers if answers else None,
        stale_answers=answers - fresh,
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
    About(
        command=command,
        complete=bool(parts),
        config=_plain(experiment),
        seeds=experiment.seed_list,
        settings={setting.name: _described(setting) for setting in settings},
        policies={title: _declared(policy) for title, policy in _policies(settings).items()},
        bound=BoundNote(included=bool(parts) and not why, reason=why),
    ).write(out, 0o666)


def _described(setting: Setting) -> run_json.Setting:
    chosen, rule = setting.experiment, setting.rule
    return run_json.Setting(
        varied=setting.varied, budget=float(rule.per_evaluation), bank=float(rule.bank), case=setting.case.value,
        knowledge=setting.knowledge.value, range_ms=chosen.window, step_ms=chosen.step, start=chosen.start,
        evaluations=chosen.evaluations,
    )  # fmt: skip


def _declared(policy: PolicySettings) -> Contender:
    made = policy.make()
    return Contender(
        name=policy.name, settings=policy.settings, keeps_budget=made.keeps_budget, is_bound=made.is_bound,
        budgeted=getattr(made, "budgeted", True),
    )  # fmt: skip


def _plain(experiment: Experiment) -> dict[str, Any]:
    """What was run; where it ran is no part of it."""
    plain: dict[str, Any] = experiment.model_dump(mode="json", exclude={"spark"})
    return plain
