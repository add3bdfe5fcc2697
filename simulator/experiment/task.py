"""Tasks: one setting with one seed and one trace for all policies, so that policies are compared in pairs."""

import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.manager import Manager, PolicyContext
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.learned import Learned, Poisson
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.rows import JournalRows
from freshkeeper.policies.base import Case, Graph, Knowledge, Policy
from freshkeeper.policies.bound import upper_bound
from freshkeeper.policies.bound.future import Future
from freshkeeper.simulator.experiment.experiment_config import GridSetting, PolicySettings
from freshkeeper.simulator.trace.file_tables import Labels
from freshkeeper.simulator.trace.trace import Trace
from freshkeeper.simulator.world.simulated_remote import RequestPace, SimulatedRemote, paced_fetcher
from freshkeeper.simulator.world.truth import SimulatedTruth, future_of, mean_rates, schedule_of
from freshkeeper.simulator.world.world import World

ANSWERS_FOR_A_BOUND = 300_000
"""SRs in the window, summed over evaluations, up to which `bound: auto` computes the clairvoyant bound."""


@dataclass(frozen=True)
class Outcome:
    """The results of one policy in one setting with one seed."""

    policy: str
    tables: dict[str, pa.Table]
    spent: float
    requests: int
    over_budget: bool
    seconds: float
    late: int
    """refreshes that came after their evaluation's deadline"""
    events: int


@dataclass(eq=False)
class Task:
    """A setting, a seed and its trace."""

    setting: GridSetting
    seed: int
    trace: Trace
    evaluations: int

    @cached_property
    def graph(self) -> Graph:
        """The graph of all edges of the trace."""
        edges = self.trace.edges
        return Graph.from_edges(edges.sn, edges.sr, self.trace.sns, self.trace.srs)

    @cached_property
    def future(self) -> Future:
        """The future, as a clairvoyant policy sees it."""
        setting = self.setting
        return future_of(
            trace=self.trace,
            graph=self.graph,
            schedule=schedule_of(self.trace),
            window=setting.window(self.trace.t0),
            evaluations=self.evaluations,
            warm_up=self.warm_up,
            rule=setting.rule,
            case=setting.case,
            warm=setting.experiment.start == "warm",
        )

    @property
    def warm_up(self) -> int:
        """The number of evaluations that do not count."""
        return int(self.setting.experiment.warm_up * self.evaluations)

    def bound(self) -> tuple[float | None, str]:
        """Compute the clairvoyant bound on freshness, or say why there is none."""
        wanted = self.setting.experiment.bound
        if wanted == "never":
            return None, "it was not asked for"
        if not self.setting.experiment.remote.instantaneous:
            return None, "it holds only for a source that answers at once and never fails"
        if self.setting.experiment.start == "cold":
            return None, "it holds only for a view that starts warm, as a miss brings several SRs for one request"
        size = self.future.answers.nnz if self.setting.case is Case.BGP else self.trace.edges.sn.size * self.evaluations
        if wanted == "auto" and size > ANSWERS_FOR_A_BOUND:
            return None, "it would take long; ask for it with --set bound=always"
        return upper_bound(self.future, self.setting.case).value, ""

    def run(self, chosen: PolicySettings) -> Outcome:
        """Run one policy over the trace."""
        policy = chosen.make()
        if hasattr(policy, "foresee"):
            policy.foresee(self.future)
        began = time.perf_counter()
        world, truth = self.world(policy)
        rows, evaluations = self._rows(chosen), journal.Buffer("evaluations")
        refreshes, answers = journal.ColumnBuffer("refreshes"), journal.ColumnBuffer("answers")
        for evaluation in world.run():
            record = evaluation.record
            results, fresh = truth.measure(world.manager, evaluation)
            evaluations.add(rows.evaluation(record, fresh, record.k <= self.warm_up) | {"results": results})
            refreshes.add(rows.refreshes(evaluation.refreshes))
            if evaluation.carried_answers is not None:
                answers.add(rows.answers(record, evaluation.answers))
        for late in world.late:
            refreshes.add(rows.refreshes(late))
        seconds = time.perf_counter() - began
        ledger = world.manager.ledger
        ledger.check()
        tables = {"evaluations": evaluations.table(), "refreshes": refreshes.table()}
        if self.setting.experiment.answers:
            tables["answers"] = answers.table()
        if not self.setting.experiment.remote.instantaneous:  # late refreshes, overlapping evaluations
            tables = {name: _in_order(table) for name, table in tables.items()}
        requests = int(tables["evaluations"]["requests"].to_numpy().sum())
        return Outcome(
            policy=chosen.title,
            tables=tables,
            spent=float(ledger.spent),
            requests=requests,
            over_budget=ledger.over_budget,
            seconds=seconds,
            late=len(world.late),
            events=world.events,
        )

    def changes(self) -> pa.Table:
        """Return the true changes, for the journal."""
        window = self.setting.window(self.trace.t0)
        t_ms, sr = schedule_of(self.trace).changes(window.start, window.instant(self.evaluations))
        setting, seed = [self.setting.name] * sr.size, np.full(sr.size, self.seed)
        return journal.table(
            "changes", {"setting": setting, "seed": seed, "sr": _labels(self.trace.sr_labels, sr), "t_ms": t_ms}
        )

    def world(self, policy: Policy) -> tuple[World, SimulatedTruth]:
        """Return the world for a policy, and the truth about it."""
        setting, trace = self.setting, self.trace
        truth = SimulatedTruth(schedule_of(trace), self.graph)
        published = setting.knowledge is Knowledge.PUBLISHED
        remote = SimulatedRemote(schedule_of(trace), self.graph, published, published and self._fixed)
        settings = setting.experiment.remote
        pace = RequestPace(settings.requests_per_second, settings.concurrency)
        source = remote if settings.instantaneous else paced_fetcher(remote, pace)
        rule = replace(setting.rule, evaluations=self.evaluations)
        with warnings.catch_warnings(action="ignore"):  # windows with gaps are what the config says
            manager = Manager(
                window=setting.window(trace.t0),
                endpoint=source,
                policy=policy,
                budget=rule,
                model=self._model(),
                case=setting.case,
                seed=np.random.SeedSequence([self.seed, 1]),
                answers=setting.experiment.answers,
                audit=setting.experiment.audit,
                target=setting.experiment.hold,
                context=PolicyContext(f"setting {setting.name}, seed {self.seed}", key_text=self._key_text),
            )
        if setting.experiment.start == "warm":
            self._warm(manager, remote)
        rng = np.random.default_rng([self.seed, 2])
        return World(
            trace=trace,
            manager=manager,
            remote=remote,
            pace=pace,
            settings=settings,
            evaluations=self.evaluations,
            rng=rng,
        ), truth

    def _warm(self, manager: Manager, remote: SimulatedRemote) -> None:
        """Fetch every copy at t0, with the dates that the source publishes."""
        t0 = self.trace.t0
        manager.view.fill_numbered(self.trace.edges.sn, self.trace.edges.sr, self.trace.sns, self.trace.srs, t0)
        every = np.arange(self.trace.srs, dtype=np.int32)
        manager.receive(every, every.tolist(), remote.fetch(every.tolist(), t0).copies, t0)
        remote.requests = 0

    def _key_text(self, kind: int, number: Hashable) -> str:
        """Return the label of an entry, so that a policy sees the keys of the trace, as in the run that recorded it."""
        labels = self.trace.sr_labels if kind == Kind.COPY else self.trace.sn_labels
        assert isinstance(number, int)
        return str(labels[number])

    @property
    def _fixed(self) -> bool:
        return self.trace.schedule is not None and self.trace.schedule.phase_ms is not None

    def _model(self) -> ChangeModel:
        models: dict[Knowledge, Callable[[], ChangeModel]] = {
            Knowledge.EXACT: lambda: schedule_of(self.trace),
            Knowledge.PUBLISHED: lambda: Published(periodic=self._fixed),
            Knowledge.RATES: lambda: Poisson(mean_rates(self.trace)),
            Knowledge.LEARNED: Learned,
        }
        return models[self.setting.knowledge]()

    def _rows(self, chosen: PolicySettings) -> JournalRows:
        setting, trace = self.setting, self.trace
        sns, srs = (partial(_labels, of) for of in (trace.sn_labels, trace.sr_labels))
        return JournalRows(
            setting=setting.name,
            policy=chosen.title,
            seed=self.seed,
            case=setting.case.value,
            knowledge=setting.knowledge.value,
            sns=sns,
            srs=srs,
        )


def _labels(labels: Labels, numbers: Sequence[Hashable] | Ints) -> list[str]:
    """Return the ids of a trace for these numbers."""
    return [str(label) for label in labels[np.array(numbers, np.int64)]]


def _in_order(table: pa.Table) -> pa.Table:
    """Sort rows by evaluation; rows of one evaluation keep their order."""
    return table.take(np.argsort(table["k"].to_numpy(), kind="stable"))
