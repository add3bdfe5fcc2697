"""A whole experiment: runs over processes, parts that survive a kill, and the run directory they end in.

Every run, one setting with one seed, is a task of its own and leaves one part, whole or not at all. A run that was
stopped goes on with `resume`, and one that is complete grows by seeds, settings and policies: only missing runs are
done. Tables are put together in the order of settings, so they do not depend on who finished first. All settings get
their first seed before any gets its second: interim results are of the whole grid.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from freshkeeper.maintenance.base.addresses import mask_secrets_in
from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.journal import run_json
from freshkeeper.maintenance.journal.run_json import About, RunError, flat
from freshkeeper.maintenance.pages.amounts import config_value
from freshkeeper.policies.registry import find
from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting, PolicySettings, settings_of
from freshkeeper.simulator.experiment.run_parts import (
    PARTS,
    Job,
    RunPart,
    evaluations_of,
    finished_parts,
    handles,
    perform,
    recorded_trace,
    split_finished,
)
from freshkeeper.simulator.experiment.run_tables import Parts, RunTables, policies_of
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
    known = _prepare(out, resume)
    tables = RunTables(
        experiment=experiment,
        settings=settings,
        policies=policies,
        out=out,
        command=command,
        started=run_json.timestamp(),
    )
    if known is not None:
        tables = replace(tables, command=known.command, started=known.started)
        _check_contained(known, tables)
        if known.complete and not _grown(known, tables):
            shutil.rmtree(out / PARTS, ignore_errors=True)
            return read_summary(out / "summary.csv")
        if known.complete:
            split_finished(out)  # a kill in between leaves run.json, and so the finished run, as it was
    parts = finished_parts(out)
    tables.describe(parts)
    todo = _jobs(tables, parts)
    for number, part in enumerate(parts.values(), 1):
        if progress is not None:
            progress(part, min(number, tables.runs - len(todo)), tables.runs)
    for done, part in enumerate(performed(todo) if performed else _performed(todo, jobs), tables.runs - len(todo) + 1):
        parts[part.run] = parts[part.run].joined(part) if part.run in parts else part
        if progress is not None:
            progress(part, done, tables.runs)
        if interim is not None and done < tables.runs:
            interim.write_if_due(out, lambda: tables.write(parts))
    rows = tables.write(parts)
    shutil.rmtree(out / PARTS)
    return rows


def _jobs(tables: RunTables, parts: Parts) -> list[Job]:
    """Return a job for every run that lacks a policy.

    Jobs go seed by seed, so that early results cover the whole grid; those of a trace are together, to read it once.
    """
    found = []
    for seed in tables.experiment.seed_list:
        for setting in tables.settings:
            part = parts.get((setting.digest, seed))
            there = part.numbers if part else {}
            lacking = [policy for policy in tables.policies[setting.name] if policy.title not in there]
            if lacking or part is None:
                number = len(part.places) if part else 0
                file = tables.out / PARTS / f"{setting.digest}-{seed}-{number}.arrow"
                found.append(Job(setting, seed, tuple(lacking), file, first=part is None))
    return sorted(found, key=lambda job: str(job.setting.experiment.trace))


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
    try:
        with worker_processes(min(jobs, len(todo))) as pool:
            with _main_hidden():
                waiting = [pool.submit(perform, job) for job in todo]
            for future in as_completed(waiting):
                yield future.result()
    except BrokenProcessPool:
        raise FreshkeeperError(
            "a process of the run was killed, perhaps for want of memory; "
            "what is finished is kept: go on with --resume, with fewer --jobs"
        ) from None


@contextmanager
def worker_processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes that end with this one, however it ends, and at once where the work ends with an error."""
    others = active_children()
    with ProcessPoolExecutor(jobs, get_context("spawn"), follow_parent) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                if child not in others:
                    child.terminate()
            raise


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Keep processes that start here from importing the main module, which they do not need.

    A script that calls `simulate` without `if __name__ == "__main__"` would otherwise begin anew in each of them.
    """
    main = sys.modules["__main__"]
    names = vars(main)
    saved: dict[str, Any] = {name: names.pop(name) for name in ("__spec__", "__file__") if name in names}
    main.__spec__ = None
    try:
        yield
    finally:
        names.update(saved)


def follow_parent() -> None:
    """Make a process of the pool ignore interrupts and end with its parent, even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _prepare(out: Path, resume: bool) -> About | None:
    """Make the run directory, or return the run.json of the run in it, which is to be resumed."""
    about = None
    if (out / run_json.FILE).exists():
        if not resume:
            raise ConfigError(f"{out} holds a run already; go on with it (--resume) or name another directory (--out)")
        about = _begun(out)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        what = "is not empty and holds no run" if out.is_dir() else "is a file"
        raise ConfigError(f"{out} {what}; name another directory (--out)")
    try:
        (out / PARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made: {error.strerror}; name another directory (--out)") from None
    return about


def _check_contained(known: About, tables: RunTables) -> None:
    """Raise ConfigError unless the config has all settings, seeds and policies of the run that is there."""
    digests = {setting.digest for setting in tables.settings}
    settings = all(setting.digest in digests for setting in known.settings.values())
    seeds = set(known.seeds) <= set(tables.experiment.seed_list)
    chosen = policies_of(tables.settings)
    policies = all(
        title in chosen and (chosen[title].name, chosen[title].settings) == (policy.name, policy.settings)
        for title, policy in known.policies.items()
    )
    if settings and seeds and policies:
        return
    plain: Any = mask_secrets_in(tables.experiment.plain)
    here = dict(flat(plain))
    for key, before in known.flat_config.items():
        if before != here.get(key) and key.partition(".")[0] not in ("title", "target"):
            difference = f"{key} was {config_value(before)} and is {config_value(here.get(key))}"
            break
    else:
        difference = f"of freshkeeper {known.freshkeeper}"
    raise ConfigError(
        f"{tables.out} holds a run of another config ({difference}); name another directory (--out): --resume adds "
        "seeds, swept values and policies, and changes nothing else"
    )


def _grown(known: About, tables: RunTables) -> bool:
    """Tell whether the config has settings, seeds or policies beyond those of the run that is there."""
    return (
        len(tables.settings) > len(known.settings)
        or len(tables.experiment.seed_list) > len(known.seeds)
        or len(policies_of(tables.settings)) > len(known.policies)
    )


def _begun(out: Path) -> About:
    with suppress(RunError):
        about = About.read(out)
        if about is not None and about.freshkeeper:
            return about
    raise ConfigError(f"{out / run_json.FILE} is not of a run of freshkeeper; name another directory (--out)")
