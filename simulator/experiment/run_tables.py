"""The tables of a run directory, written from parts: all of them at the end, the finished ones before."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.journal import journal, run_json
from freshkeeper.maintenance.journal.run_json import About, BoundNote, Contender
from freshkeeper.policies.registry import find
from freshkeeper.simulator.experiment.baselines import Baseline, baselines_of, write_baselines
from freshkeeper.simulator.experiment.experiment_config import GRID_KEYS, Experiment, GridSetting, PolicySettings
from freshkeeper.simulator.experiment.run_parts import TABLES, RunPart, opened, unpacked, write_finished
from freshkeeper.simulator.experiment.summary import SummaryRow, mean_and_ci, write_summary

Parts = Mapping[tuple[str, int], RunPart]
"""by the digest of the setting, and the seed"""
ROWS = 1 << 17
"""From so many on they are written: memory holds one large part, or many small ones, which are read as one."""
TOTALS = ("fresh", "results", "evaluations", "spent", "requests", "seconds")
OPEN = 64
"""Files of parts at once; where they have many runs each, tables that belong together lie in several."""


@dataclass(frozen=True)
class RunTables:
    """The tables of a run directory, made from the parts of an experiment."""

    experiment: Experiment
    settings: list[GridSetting]
    policies: dict[str, list[PolicySettings]]
    out: Path
    command: str
    started: str

    def write(self, parts: Parts) -> list[SummaryRow]:
        """Write everything: tables, baselines.csv, summary.csv and, last, run.json."""
        by_setting: list[tuple[GridSetting, list[RunPart]]] = []
        for setting in self.settings:
            runs = [(setting.digest, seed) for seed in self.experiment.seed_list]
            mine = [parts[run] for run in runs if run in parts]
            if mine:
                by_setting.append((setting, mine))
        ordered = [(setting.name, part) for setting, mine in by_setting for part in mine]
        for name in TABLES:
            _merge(self.out, name, ordered)
        write_baselines(self.out, [row for setting, mine in by_setting for row in _baselines(setting, mine)])
        rows = []
        for setting, mine in by_setting:
            for policy in self.policies[setting.name]:
                finished = [part for part in mine if policy.title in part.numbers]
                rows += [_row(setting, policy, finished)] if finished else []
        write_summary(self.out / "summary.csv", rows)
        if self.finished(parts) == self.runs:
            write_finished(self.out, [replace(part, setting=name) for name, part in ordered])
        self.describe(parts)
        return rows

    @property
    def runs(self) -> int:
        """The number of runs: every setting with every seed."""
        return len(self.settings) * len(self.experiment.seed_list)

    def finished(self, parts: Parts) -> int:
        """Return the number of runs of which all policies are finished."""
        finished = 0
        for setting in self.settings:
            wanted = {policy.title for policy in self.policies[setting.name]}
            for seed in self.experiment.seed_list:
                part = parts.get((setting.digest, seed))
                finished += part is not None and wanted <= set(part.numbers)
        return finished

    def describe(self, parts: Parts) -> None:
        """run.json, of a run that is complete when it has all parts."""
        finished = self.finished(parts)
        settings = {setting.name: _described(setting) for setting in self.settings}
        why = next((part.why_no_bound for part in parts.values() if part.bound is None), "")
        About(
            command=self.command,
            started=self.started,
            complete=finished == self.runs,
            finished=finished,
            runs=self.runs,
            config=self.experiment.plain,
            seeds=self.experiment.seed_list,
            settings=settings,
            policies={title: _declared(policy) for title, policy in policies_of(self.settings).items()},
            bound=BoundNote(included=bool(parts) and not why, reason=why),
        ).write(self.out, 0o666)


def _baselines(setting: GridSetting, parts: list[RunPart]) -> list[Baseline]:
    return baselines_of(setting, [part.baselines for part in parts])


def _merge(out: Path, name: str, parts: Sequence[tuple[str, RunPart]]) -> None:
    """Write a table part by part in their order, each with its setting's name; no file where none has the table."""
    tables = _gathered(parts, name)
    first = next(tables, None)
    if first is None:
        return
    with (
        atomic_file(out / f"{name}.parquet") as unfinished,
        parquet.ParquetWriter(str(unfinished), journal.SCHEMAS[name], compression="zstd") as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(table)


def _gathered(parts: Sequence[tuple[str, RunPart]], name: str) -> Iterator[pa.Table]:
    """Yield the tables of all parts that have one, small ones together."""
    files = lru_cache(OPEN)(opened)
    held: list[pa.Table] = []
    rows = 0
    for setting, place in [(setting, place) for setting, part in parts for place in part.places]:
        packed = files(place.file)[name][place.row].as_buffer()
        if packed is None:
            continue
        table = unpacked(packed)
        if place.setting != setting:  # the grid has grown since, and the setting has another name in it
            names = pa.array([setting] * table.num_rows, table.schema.field("setting").type)
            table = table.set_column(table.column_names.index("setting"), "setting", names)
        held.append(table)
        rows += table.num_rows
        if rows >= ROWS:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if held:
        yield pa.concat_tables(held)


def policies_of(settings: list[GridSetting]) -> dict[str, PolicySettings]:
    """Every policy of the run by title."""
    return {policy.title: policy for setting in settings for policy in setting.experiment.policies}


def _row(setting: GridSetting, policy: PolicySettings, parts: list[RunPart]) -> SummaryRow:
    numbers = [part.numbers[policy.title] for part in parts]
    freshness, ci95 = mean_and_ci([n["freshness"] for n in numbers if n["freshness"] is not None])
    totals = {name: sum(n[name] for n in numbers) for name in TOTALS}
    fresh, answers = totals["fresh"], totals["results"]
    bounds = [part.bound for part in parts if part.bound is not None]
    share_of_bound = None
    # The bound holds for a budget, so a policy without one has no share of it; and it needs all seeds.
    if getattr(find(policy.name), "budgeted", True) and len(bounds) == len(parts) and freshness is not None:
        bound = sum(bounds) / len(bounds)
        if bound:
            share_of_bound = freshness / bound
    over_budget = any(n["over_budget"] for n in numbers)
    return SummaryRow(
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
        spent=totals["spent"],
        requests_per_evaluation=totals["requests"] / totals["evaluations"],
        share_of_bound=share_of_bound,
        over_budget=over_budget,
        seconds=totals["seconds"],
        varied={key: value for key, value in setting.varied.items() if key not in GRID_KEYS},
    )


def _described(setting: GridSetting) -> run_json.Setting:
    chosen, rule = setting.experiment, setting.rule
    return run_json.Setting(
        varied=setting.varied, values=setting.values, digest=setting.digest, budget=float(rule.per_evaluation),
        bank=float(rule.bank), case=setting.case.value, knowledge=setting.knowledge.value, range_ms=chosen.window,
        step_ms=chosen.step, start=chosen.start, evaluations=chosen.evaluations,
    )  # fmt: skip


def _declared(policy: PolicySettings) -> Contender:
    made = policy.make()
    return Contender(
        name=policy.name, settings=policy.settings, keeps_budget=made.keeps_budget, is_bound=made.is_bound,
        budgeted=getattr(made, "budgeted", True),
    )  # fmt: skip
