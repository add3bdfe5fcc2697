"""Starting a service from its config, and changing its queries to those of another config."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimits
from freshkeeper.maintenance.engine.service_join.maintenance_settings import (
    MaintenanceSettings,
    Observer,
)
from freshkeeper.maintenance.engine.windows import SharedWindows
from freshkeeper.maintenance.journal.journal import Retention
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.runtime.query_runtime import QueryRuntime, observe_all, open_sources
from freshkeeper.maintenance.runtime.run_config import read_text
from freshkeeper.maintenance.serve.answer_log import AnswerLog
from freshkeeper.maintenance.serve.disk_room import DiskRoom
from freshkeeper.maintenance.serve.overlapping_engine import OverlappingEngine
from freshkeeper.maintenance.serve.registrations import Registrations
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service import QueryService
from freshkeeper.maintenance.serve.service_log import ServiceLog
from freshkeeper.maintenance.serve.watchdog import Watchdog
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.streams.inputs import Inputs


def start(config: ServeConfig, observers: Sequence[Observer]) -> QueryService:
    """Open a service where an earlier one ended, with the queries of its config."""
    state = State(Database(config.state))
    try:
        graphs = StaticGraphs(Dictionary(), {name: Path(file) for name, file in config.graph_files.items()})
        graphs.load()
        about = About.of_queries(config.seed, "freshkeeper serve", config.model_dump(mode="json"))
        retention = Retention(config.journal_age, config.journal_largest)
        journal = QueryJournal(config.seed, config.journal, state, about, retention)
        observe = observe_all([journal.observe, *observers])
        settings = MaintenanceSettings.of(config, observe, state, _shared_budget(config, state))
        # A service outlives a wrong policy: the evaluation answers from the view, and the failure is counted.
        settings = replace(settings, skips_policy_errors=True)
        engine = OverlappingEngine(inputs=Inputs(config.gap), watchdog=Watchdog(config.state / "suspect", config.limit))
        limits = EvaluationLimits(config.most_rows, config.limit, config.most_memory)
        sources = open_sources(config.sources, config.volatile)
        runtime = QueryRuntime(
            engine=engine,
            graphs=graphs,
            sources=sources,
            state=state,
            journal=journal,
            windows=SharedWindows(),
            limits=limits,
        )
        delays = {name: one.delay for name, one in config.streams.items()}
        queries = Registrations(
            runtime,
            settings,
            state,
            delays,
            AnswerLog(config.state / "answers"),
            dialect=config.dialect,
            max_queries=config.most_queries,
            max_characters=config.longest_query,
        )
        service = QueryService(
            queries,
            engine,
            delays,
            ServiceLog(config.state / "log"),
            gap=config.gap,
            blank_nodes=config.blank_nodes,
            journal=journal,
            idle=config.idle_seconds,
            disk=DiskRoom(config.state),
        )
    except BaseException:
        state.close()
        raise
    try:
        take_queries(service, config)
    except BaseException:
        service.close()
        raise
    return service


def take_queries(service: QueryService, config: ServeConfig, checked: Callable[[], None] = lambda: None) -> list[str]:
    """Register, replace and delete queries until they are those of a config; return what was done.

    Nothing is done if any query has a mistake; `checked` is called when none has.
    """
    wanted = {name: (read_text(one.query), one.dialect) for name, one in config.queries.items()}
    known = service.queries.all
    gone = [name for name, one in known.items() if one.configured and name not in wanted]
    if gone and "queries" not in config.model_fields_set:
        raise ConfigError(  # a config whose writing broke off has lost its last keys
            f"there is no key queries any more, which would delete {', '.join(gone)}: write queries: {{}} to do that"
        )
    changed = [
        name for name in wanted if name in known and (known[name].text, known[name].definition.dialect) != wanted[name]
    ]
    new = [name for name in wanted if name not in known]
    for name in [*changed, *new]:
        try:
            service.check(*wanted[name])
        except FreshkeeperError as error:
            raise ConfigError(f"queries.{name}: {error}") from None
    checked()
    removed = [service.delete(name, keep=True) for name in [*gone, *changed]]
    for name in [*changed, *new]:
        service.register(name, *wanted[name], configured=True)
    changes = {"new": new, "replaced": changed, "deleted": gone}
    done = [f"{kind}: {', '.join(names)}" for kind, names in changes.items() if names]
    if removed:
        done.append(f"moved aside: {', '.join(map(str, removed))}")
    return done


def _shared_budget(config: ServeConfig, state: State) -> SharedBudget | None:
    """Return the budget that all views share, as an earlier service left it; None where each has its own."""
    if not config.shared:
        return None
    shared = SharedBudget(config.rule, config.period, overlapping=True)
    if "shared" in state.base.facts:
        shared.load(state.base.facts["shared"], [])
    return shared
