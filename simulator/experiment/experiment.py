"""A whole experiment: runs over processes, parts that survive a kill, and the run directory they end in.

Every run, one setting with one seed, is a task of its own and leaves one part, whole or not at all. What was stopped
goes on with `resume`; tables are put together in the order of settings, so they do not depend on who finished first.
All settings get their first seed before any gets its second: what there is so far is of the whole grid.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread

from freshkeeper.maintenance.base.addresses import mask_secrets_in
from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.journal import run_json
from freshkeeper.maintenance.journal.run_json import About, RunError
from freshkeeper.policies.registry import find
from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting, PolicySettings, settings_of
from freshkeeper.simulator.experiment.run_parts import (
    Job,
    RunPart,
    evaluations_of,
    handles,
    perform,
    read_parts,
    recorded_trace,
)
from freshkeeper.simulator.experiment.run_tables import RunTables, policies_of
from freshkeeper.simulator.experiment.summary import SummaryRow, read_summary

Progress = Callable[[RunPart, int, int], None]
Performed = Callable[[list[Job]], Iterator[RunPart]]
"""Does all runs somewhere, and yields their parts in any order."""


@dataclass
class InterimResults:
    """Writes interim results while a run goes on, so rarely that it takes a twentieth of the time."""

    written: Callable[[Path], object] = lambda _: None
    """called with the run directory each time that it has been written"""
    first_s: float = 10.0
    times: float = 20.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._due = self.clock() + self.first_s

    def write_if_due(self, out: Path, write: Callable[[], object]) -> None:
        """Write everything if it is time."""
        began = self.clock()
        if began < self._due:
            return
        write()
        self.written(out)
        ended = self.clock()
        self._due = ended + max(self.first_s, self.times * (ended - began))


def simulate(
    experiment: Experiment,
    out: Path,
    command: str = "",
    jobs: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
    performed: Performed | None = None,
    interim: InterimResults | None = None,
) -> list[SummaryRow]:
    """Do all runs that are not finished, then write the run directory; with `interim` in between as well.

    `performed` says where runs are done; by default in so many processes of this machine.
    """
    settings = settings_of(experiment)
    policies = runnable(settings)
    for setting in sorted(settings, key=lambda setting: str(setting.experiment.trace)):
        if setting.experiment.trace is not None:  # what cannot be read or done must not leave a run directory
            evaluations_of(setting.experiment, recorded_trace(setting.experiment.trace))
    known = _prepare(experiment, out, resume)
    if known is not None and known.complete:
        return read_summary(out / "summary.csv")
    todo = _jobs(experiment, settings, out)
    tables = RunTables(
        experiment=experiment,
        settings=settings,
        policies=policies,
        out=out,
        command=command if known is None else known.command,
        todo=todo,
    )
    if known is None:
        tables.describe({})
    before = [part for file in sorted((out / "parts").glob("*.arrow")) for part in read_parts(file)]
    there = {(part.index, part.seed) for part in before}
    left = [job for job in _seed_by_seed(todo, experiment.seed_list) if (job.index, job.seed) not in there]
    parts: dict[tuple[int, int], RunPart] = {}
    for part in chain(before, performed(left) if performed else _performed(left, jobs)):
        parts[part.index, part.seed] = part
        if progress is not None:
            progress(part, len(parts), len(todo))
        if interim is not None and len(parts) < len(todo):
            interim.write_if_due(out, lambda: tables.write(parts))
    rows = tables.write(parts)
    shutil.rmtree(out / "parts")
    return rows


def _jobs(experiment: Experiment, settings: list[GridSetting], out: Path) -> list[Job]:
    """Return a job for every run, in the order of settings."""
    return [
        Job(setting, index, seed, out / "parts" / f"{index:05d}-{seed}.arrow")
        for index, setting in enumerate(settings)
        for seed in experiment.seed_list
    ]


def _seed_by_seed(todo: list[Job], seeds: list[int]) -> list[Job]:
    """Order jobs seed by seed, so that early results cover the whole grid; traces are grouped, to be read once."""
    position = {seed: n for n, seed in enumerate(seeds)}
    return sorted(todo, key=lambda job: (str(job.setting.experiment.trace), position[job.seed]))


def runnable(settings: list[GridSetting]) -> dict[str, list[PolicySettings]]:
    """Return the policies of each setting; raise ConfigError for one that no setting can run."""
    fitting = {}
    for setting in settings:
        fitting[setting.name] = [policy for policy in setting.experiment.policies if handles(policy, setting)]
    running = {policy.title for chosen in fitting.values() for policy in chosen}
    for policy in policies_of(settings).values():
        policy.make()
        if policy.title not in running:
            kind = find(policy.name)
            raise ConfigError(
                f"the policy {policy.title!r} handles {_listed(kind.cases)} with {_listed(kind.knowledge)} knowledge; "
                "no setting of this run has such a case with such knowledge"
            )
    return fitting


def _listed(words: Iterable[str]) -> str:
    return " or ".join(sorted(words))


def _performed(todo: list[Job], jobs: int) -> Iterator[RunPart]:
    if min(jobs, len(todo)) <= 1:
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
    """Make a process of the pool ignore interrupts and end with its parent, even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _prepare(experiment: Experiment, out: Path, resume: bool) -> About | None:
    """Make the run directory, or check that the run in it can be resumed and return its run.json."""
    about = None
    if (out / run_json.FILE).exists():
        if not resume:
            raise ConfigError(f"{out} holds a run already; go on with it (--resume) or name another directory (--out)")
        about = _begun(out)
        if about.config != mask_secrets_in(experiment.plain):
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
