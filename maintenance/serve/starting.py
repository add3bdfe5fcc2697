"""From the config of a service to one that works."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.service_join.maintenance_settings import (
    MaintenanceSettings,
    Observer,
    PolicyName,
    Shares,
)
from freshkeeper.maintenance.journal.retention import Retention
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.runtime.query_files import read_text
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.serve.answer_log import AnswerLog
from freshkeeper.maintenance.serve.registrations import Registrations
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service import Service
from freshkeeper.maintenance.serve.service_log import ServiceLog
from freshkeeper.maintenance.sources.source_config import SourceConfig
from freshkeeper.maintenance.sources.sources import Source, load_source, source_of
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.run_state import State


def start(config: ServeConfig, observers: Sequence[Observer]) -> Service:
    """Go on where an earlier service ended, with the config's queries."""
    state = State(Database(config.state))
    try:
        graphs = StaticGraphs(Dictionary(), {name: Path(file) for name, file in config.graph_files.items()})
        graphs.load()
        idle = None if config.idle is None else config.idle / 1000
        delays = {name: one.delay for name, one in config.streams.items()}
        about = About.of_queries(config.seed, "freshkeeper serve", _shown_config(config))
        retention = Retention(config.journal_age, config.journal_largest)
        journal = QueryJournal(config.seed, config.journal, state, about, retention)
        settings = MaintenanceSettings(
            PolicyName(config.policy),
            _budget(config, state),
            shares=Shares(config.weights) if config.shared else None,
            capacity=config.capacity,
            seed=config.seed,
            edges=config.edges == "refreshed",
            audit=config.audit,
            target=config.target,
            observe=partial(_tell, [journal.observe, *observers]),
            state=state,
        )
        queries = Registrations(
            settings, sources_of(config, config.sources), graphs, delays, state, AnswerLog(config.state / "answers"),
            config.dialect, config.most_queries, config.longest_query,
        )  # fmt: skip
        service = Service(queries, delays, ServiceLog(config.state / "log"), config.gap, journal, idle)
    except BaseException:
        state.close()
        raise
    try:
        take_queries(service, config)
    except BaseException:
        service.close()
        raise
    return service


def take_queries(service: Service, config: ServeConfig, checked: Callable[[], None] = lambda: None) -> list[str]:
    """The config's queries: new ones are registered, changed ones replaced, those that are gone deleted; what was done.

    Nothing is done if any of them is wrong; `checked` is called when none is.
    """
    wanted = {name: (read_text(one.query), one.dialect) for name, one in config.queries.items()}
    known = service.queries.all
    gone = [name for name, one in known.items() if one.configured and name not in wanted]
    changed = [name for name in wanted if name in known and (known[name].text, known[name].dialect) != wanted[name]]
    new = [name for name in wanted if name not in known]
    for name in [*changed, *new]:
        try:
            service.check(*wanted[name])
        except FreshkeeperError as error:
            raise ConfigError(f"queries.{name}: {error}") from None
    checked()
    for name in [*gone, *changed]:
        service.delete(name)
    for name in [*changed, *new]:
        service.register(name, *wanted[name], configured=True)
    done = {"new": new, "replaced": changed, "deleted": gone}
    return [f"{what}: {', '.join(names)}" for what, names in done.items() if names]


def _budget(config: ServeConfig, state: State) -> BudgetRule | SharedBudget:
    """Of every view, or of all together, as an earlier service left it."""
    rule = BudgetRule.of(config.budget, config.bank)
    if not config.shared:
        return rule
    shared = SharedBudget(rule, config.period, overlapping=True)
    if "shared" in state.base.facts:
        shared.load(state.base.facts["shared"], [])
    return shared


def sources_of(config: ServeConfig, names: Iterable[str]) -> dict[str, Source]:
    """Some of a config's sources."""
    wanted = {name: config.sources[name] for name in names}
    found = {
        name: source_of(written) if isinstance(written, SourceConfig) else load_source(written)
        for name, written in wanted.items()
    }
    volatile = {name: tuple(predicates) for name, predicates in config.volatile.items() if name in found}
    return found | {name: replace(found[name], volatile=predicates) for name, predicates in volatile.items()}


def _shown_config(config: ServeConfig) -> dict[str, Any]:
    """All keys; where words that nobody may know stand is one of them, and they themselves are not."""
    return config.model_dump(mode="json")


def _tell(observers: Sequence[Observer], source: str, manager: Manager, evaluation: Evaluation) -> None:
    for observe in observers:
        observe(source, manager, evaluation)
