"""Experiments run by commands: where they run, their standings, and the printed results."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import Parameter, signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from freshkeeper.commands.command_line import Option
from freshkeeper.commands.interrupts import interruptible
from freshkeeper.commands.model_options import options_of
from freshkeeper.commands.screen import Bar, TextTable, number, print_json, say, show, time_in_words
from freshkeeper.maintenance.base.errors import ConfigError, StoppedError

if TYPE_CHECKING:
    from freshkeeper.simulator.experiment.baselines import Baseline
    from freshkeeper.simulator.experiment.experiment import Performed
    from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting
    from freshkeeper.simulator.experiment.run_parts import RunPart
    from freshkeeper.simulator.experiment.summary import SummaryRow

HEADS = ("setting", "policy", "γ", "bank", "freshness", "± 95 %", "of bound", "requests", "")
CACHE_HEADS = ("setting", "cache", "γ", "TTL", "freshness", "± 95 %", "requests")
ALL_FRESH = 0.9995
"""Freshness that tables show as 1.000."""
SMALL_RUN, FEW_RUNS = 100_000, 150
"""Evaluations times edges of a run, and runs, below which one process is fastest."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The options that say how an experiment is carried out."""

    jobs: Annotated[int, Option(min=0, help="number of processes; 0: as many as are useful")] = 0
    on: Annotated[str, Option(help="local, or spark: tasks on Spark executors")] = "local"
    master: Annotated[str, Option(help="the Spark master; default: local[*]")] = ""
    out: Annotated[Path | None, Option(help="the run directory; default: a new one in runs")] = None
    resume: Annotated[
        bool, Option("--resume", help="go on with a run, or add seeds, swept values and policies to it")
    ] = False
    dry_run: Annotated[bool, Option("--dry-run", help="print settings, runs and an estimate of the time")] = False
    report: Annotated[bool, Option(help="write the page report.html")] = True
    as_json: Annotated[bool, Option("--json", help="print the rows as one line of JSON")] = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Chosen":
        """Take the values from the options of a command."""
        return cls(**{key: options[key] for key in cls.__dataclass_fields__})


def experiment_options(keys: Iterable[str]) -> Iterator[Parameter]:
    """Yield the options for keys of an experiment, and for how it is carried out."""
    from freshkeeper.simulator.experiment.experiment_config import Experiment

    yield from options_of(Experiment, keys, defaults=False)
    yield from signature(Chosen).parameters.values()


def carry_out(experiment: "Experiment", out: Path, chosen: Chosen, notes: Sequence[str] = ()) -> "list[SummaryRow]":
    """Run the experiment, write its page and print the results; with --dry-run print the plan."""
    from freshkeeper.simulator.experiment.baselines import read_baselines
    from freshkeeper.simulator.experiment.experiment_config import settings_of
    from freshkeeper.simulator.report.page import write_report

    if chosen.dry_run:
        for line in notes:
            say(line)
        show_plan(experiment, chosen)
        return []
    settings = settings_of(experiment)
    live = Live(experiment)
    try:
        with interruptible(), live.bar.running():
            rows = run_experiment(experiment, out, chosen, live, _command())
    except KeyboardInterrupt:
        raise StoppedError(f"stopped; what is finished is kept: go on with --out {out} --resume") from None
    page, baselines = write_report(out) if chosen.report else None, read_baselines(out)
    for line in [*notes, *live.notes(out)]:
        say(line)
    if chosen.as_json:
        varied = {setting.name: setting.varied for setting in settings}
        told = []
        for row in rows:
            cells = asdict(row) | {"setting": varied[row.setting]}
            del cells["varied"]
            told.append(cells)
        plain = [{**asdict(cache), "setting": varied[cache.setting]} for cache in baselines]
        print_json({"run": str(out), "rows": told, "baselines": plain})
        return rows
    alike: dict[tuple[str, str], list[SummaryRow]] = {}  # no table mixes cases or levels of knowledge
    for row in rows:
        alike.setdefault((row.case, row.knowledge), []).append(row)
    for (case, knowledge), group in alike.items():
        show(_table(settings, group))
        caches = [cache for cache in baselines if (cache.case, cache.knowledge) == (case, knowledge)]
        if caches:
            show(_caches_table(settings, caches))
    say(f"run directory: {out}" + (f"\npage: {page}" if page else ""))
    return rows


def run_experiment(
    experiment: "Experiment", out: Path, chosen: Chosen, live: "Live", command: str = ""
) -> "list[SummaryRow]":
    """Do all runs where they were asked for, and show how far they are."""
    from freshkeeper.simulator.experiment.experiment import InterimResults, simulate
    from freshkeeper.simulator.experiment.experiment_config import settings_of
    from freshkeeper.simulator.report.page import write_report

    performed = _where(experiment, chosen)
    tasks = len(settings_of(experiment)) * len(experiment.seed_list)
    return simulate(
        experiment,
        out,
        command=command,
        jobs=chosen.jobs or processes(experiment, tasks, tasks * len(experiment.policies)),
        resume=chosen.resume,
        progress=live.update,
        performed=performed,
        interim=InterimResults(write_report) if chosen.report else InterimResults(),
    )


def show_plan(experiment: "Experiment", chosen: Chosen) -> None:
    """Print the settings of an experiment, its runs, and about how long they take."""
    from freshkeeper.simulator.experiment.plan import plan_of

    plan = plan_of(experiment)
    at_once = chosen.jobs or processes(experiment, plan.runs, plan.runs * len(experiment.policies))
    seconds = plan.seconds / at_once
    if chosen.as_json:
        settings = [{"varied": one.setting.varied, "evaluations": one.evaluations} for one in plan.settings]
        print_json({"settings": settings, "runs": plan.runs, "processes": at_once, "seconds": seconds})
        return
    rows = [[one.setting.name, f"{one.evaluations:,}", ", ".join(one.policies)] for one in plan.settings]
    show(TextTable("Nothing was run; this is what would be.", ["setting", "evaluations", "policies"], rows, words=1))
    seeds = len(experiment.seed_list)
    where = "in one process" if at_once == 1 else f"in {at_once} processes"
    say(
        f"{len(plan.settings):,} settings × {seeds:,} seeds = {plan.runs:,} runs; "
        f"about {time_in_words(seconds)} {where}, judged by {plan.probes} short runs"
    )


def free(name: str) -> Path:
    """Return runs/NAME, or runs/NAME-N if that exists."""
    for n in range(1, 10_000):
        suffix = f"-{n}" if n > 1 else ""
        place = Path("runs") / f"{name}{suffix}"
        if not place.exists():
            return place
    return Path("runs") / f"{name}-{os.getpid()}"


def unbudgeted(settings: "Sequence[GridSetting]") -> set[str]:
    """Return the titles of policies that have no budget."""
    from freshkeeper.policies.registry import find

    every = [policy for setting in settings for policy in setting.experiment.policies]
    return {policy.title for policy in every if not getattr(find(policy.name), "budgeted", True)}


def _where(experiment: "Experiment", chosen: Chosen) -> "Performed | None":
    """Return the function that does runs on Spark, or None for this machine."""
    if chosen.on == "local":
        if chosen.master:
            raise ConfigError(f"--master {chosen.master} is the master of Spark: add --on spark")
        return None
    if chosen.on != "spark":
        raise ConfigError(f"--on {chosen.on}: choose local or spark")
    from freshkeeper.maintenance.analysis.spark_session import spark_session

    settings = experiment.spark_settings
    master = chosen.master or settings.pop("spark.master", "local[*]")
    spark = spark_session(master, settings)
    from freshkeeper.simulator.experiment.spark_tasks import SparkRuns

    return SparkRuns(spark)


class Live:
    """The standings while the run goes on, and notes about it at the end."""

    def __init__(self, experiment: "Experiment") -> None:
        from freshkeeper.simulator.experiment.experiment_config import settings_of

        self.bar, self._settings = Bar("simulating", "runs"), settings_of(experiment)
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}
        """mean freshness and seeds, in the order in which they moved"""
        self.parts: list[RunPart] = []

    def update(self, part: "RunPart", done: int, of: int) -> None:
        """Add a finished run; the table shows the latest ones."""
        self.parts.append(part)
        for policy, result in part.numbers.items():
            if result["freshness"] is not None:
                mean, seeds = self._seen.pop((part.digest, policy), (0.0, 0))
                self._seen[part.digest, policy] = mean + (result["freshness"] - mean) / (seeds + 1), seeds + 1
        below = self._standings() if self.bar.on_terminal else None
        self.bar.update(done, of, below, counted=not part.reused)

    def _standings(self) -> TextTable:
        latest = set(islice(reversed(self._seen), self.bar.room))
        rows = []
        for setting in self._settings:
            for policy in setting.experiment.policies:
                if (setting.digest, policy.title) in latest:
                    mean, seeds = self._seen[setting.digest, policy.title]
                    rows.append([setting.name, policy.title, f"{mean:.3f}", str(seeds)])
        return TextTable("", ["setting", "policy", "freshness so far", "seeds"], rows, words=2)

    def notes(self, place: Path) -> list[str]:
        """Return why the bound or the caches are left out, what came late, and whether the settings were too easy."""
        if not self.parts:  # the run was finished before
            return _notes(place)
        without = [part for part in self.parts if part.why_no_bound]
        where = ""
        if len(without) < len(self.parts):
            where = f" in {len({part.digest for part in without})} of {len(self._settings)} settings"
        reasons = dict.fromkeys(part.why_no_bound for part in without)
        notes = [f"the clairvoyant bound is left out{where}: {reason}" for reason in reasons]
        notes += self._without_caches()
        numbers = [of_policy for part in self.parts for of_policy in part.numbers.values()]
        late = sum(of_policy["late"] for of_policy in numbers)
        sent = sum(of_policy["requests"] for of_policy in numbers)
        if late:
            notes.append(f"{late:,} of {sent:,} refreshes came after their deadline")
        return notes + list(self._all_fresh())

    def _without_caches(self) -> list[str]:
        """Return why caches that were requested are missing."""
        wanted = {setting.digest for setting in self._settings if setting.experiment.baselines}
        reasons = dict.fromkeys(part.why_no_baselines for part in self.parts if part.digest in wanted)
        return [f"the caches beside the policies are left out: {reason}" for reason in reasons if reason]

    def _all_fresh(self) -> "Iterator[str]":
        """Yield a warning for each setting in which every policy is wholly fresh, with the likely reason."""
        from freshkeeper.policies.registry import find

        for setting in self._settings:
            titles = [p.title for p in setting.experiment.policies if not find(p.name).is_bound]
            means = [self._seen[setting.digest, title][0] for title in titles if (setting.digest, title) in self._seen]
            if not means or min(means) < ALL_FRESH:
                continue
            parts = [part for part in self.parts if part.digest == setting.digest]
            evaluations = 0
            for part in parts:
                evaluations += max(result["evaluations"] for result in part.numbers.values())
            changes, budget = sum(part.changes for part in parts) / evaluations, setting.experiment.budget
            why = "the entries that change are not those that answers need while they need them: see `trace describe`"
            if not changes:
                why = "nothing changes while it is evaluated: see the times of changes in `trace describe`"
            elif changes <= budget:
                why = (
                    f"{changes:.3g} entries change per evaluation, and a budget of {budget:g} pays for all of them: "
                    f"try --budget {max(changes / 4, 0.01):.2g}"
                )
            name = "" if len(self._settings) == 1 else f" with {setting.name}"
            yield f"all policies are wholly fresh{name}, so nothing tells them apart: {why}"


def _notes(place: Path) -> list[str]:
    """Return why a finished run has no bound."""
    from freshkeeper.maintenance.journal.run_json import About

    about = About.read(place)
    bound = None if about is None else about.bound
    if bound is None or bound.included:
        return []
    return [f"the clairvoyant bound is left out: {bound.reason}"]


def _table(settings: "Sequence[GridSetting]", rows: "list[SummaryRow]") -> TextTable:
    """Return a table with a row per setting and policy; the title says what all rows share."""
    free, names = unbudgeted(settings), {setting.name: setting.sweep_name for setting in settings}
    shown = []
    for row in rows:
        # A share of the bound means nothing for a policy that spent more than the bound may.
        of_bound, remark = number(row.share_of_bound), ""
        if row.policy in free:
            of_bound, remark = "", "sets no budget"
        elif row.over_budget:
            of_bound, remark = "", "over budget"
        cells = {"setting": names[row.setting], "policy": row.policy, "bank": f"{row.bank:g}", "of bound": of_bound}
        shown.append(cells | {"": remark} | _measured(row))
    same = [head for head in ("γ", "bank") if _is_shared(head, shown)]
    said = [f"case {rows[0].case}", f"knowledge {rows[0].knowledge}", *(f"{head} {shown[0][head]}" for head in same)]
    return _filled(f"Mean freshness, and requests per evaluation\n{', '.join(said)}", HEADS, shown, same)


def _caches_table(settings: "Sequence[GridSetting]", caches: "Sequence[Baseline]") -> TextTable:
    """Return the table of caches, which have no budget and therefore no rank."""
    from freshkeeper.maintenance.pages.amounts import duration

    names = {setting.name: setting.sweep_name for setting in settings}
    shown = []
    for cache in caches:
        ttl = "" if cache.ttl_ms is None else duration(cache.ttl_ms)
        shown.append({"setting": names[cache.setting], "cache": cache.policy, "TTL": ttl} | _measured(cache))
    title = (
        "Caches beside them, which set no budget: a TTL that makes as many\n"
        "requests as γ pays for, the source asked every time (no-cache), or once"
    )
    same = [head for head in ("γ",) if _is_shared(head, shown)]
    return _filled(title, CACHE_HEADS, shown, same)


def _measured(row: "SummaryRow | Baseline") -> dict[str, str]:
    """Return the cells of numbers that policies and caches both have."""
    return {
        "γ": f"{row.budget:g}", "freshness": number(row.freshness), "± 95 %": number(row.ci95),
        "requests": f"{row.requests_per_evaluation:.2f}",
    }  # fmt: skip


def _is_shared(head: str, rows: list[dict[str, str]]) -> bool:
    return len({row[head] for row in rows}) == 1


def _filled(title: str, heads: Sequence[str], rows: list[dict[str, str]], hidden: Sequence[str]) -> TextTable:
    """Return a table of the columns that have a text in some row."""
    filled = {head for row in rows for head, text in row.items() if text}
    shown = [head for head in heads if head in filled and head not in hidden]
    cells = [list(map(row.__getitem__, shown)) for row in rows]
    return TextTable(title, shown, cells, words=sum(head in shown for head in ("setting", "policy", "cache")))


def processes(experiment: "Experiment", together: int, runs: int) -> int:
    """Return the number of processes for `runs` runs, `together` at once; a process needs a second of work to pay."""
    if together == 1 or (_size(experiment) <= SMALL_RUN and runs < FEW_RUNS):
        return 1
    return min(together, os.cpu_count() or 1)


def _size(experiment: "Experiment") -> int:
    """Return evaluations times edges of one run."""
    from freshkeeper.simulator.experiment.run_parts import evaluations_of, recorded_trace

    if experiment.trace is None:
        return evaluations_of(experiment, None) * experiment.workload.edges
    trace = recorded_trace(experiment.trace)
    return evaluations_of(experiment, trace) * len(trace.edges)


def _command() -> str:
    """Return the command that repeats the run from the beginning, in a new directory."""
    written, kept = iter(sys.argv[1:]), ["freshkeeper"]
    for word in written:
        if word == "--out":
            next(written, None)
        elif word != "--resume" and not word.startswith("--out="):
            kept.append(word)
    return shlex.join(kept)
