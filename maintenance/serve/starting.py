"""From the config of a service to one that works."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.budget.ledger import BudgetRule
from freshkeeper.maintenance.evaluation import Evaluation
from freshkeeper.maintenance.journal.query_journal import QueryJournal
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.run.query_files import read_text
from freshkeeper.maintenance.serve.answer_log import AnswerLog
from freshkeeper.maintenance.serve.registrations import Registrations
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service import Service
from freshkeeper.maintenance.serve.service_log import ServiceLog
from freshkeeper.maintenance.service.source_config import SourceConfig
from freshkeeper.maintenance.service.sources import Source, load_source, source_of
from freshkeeper.maintenance.service_join.maintenance_settings import MaintenanceSettings, Observer, PolicyName
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.run_state import State


def start(config: ServeConfig, observers: Sequence[Observer]) -> Service:
    """Go on where an earlier service ended, with the config's queries."""
    state = State(Database(config.state))
    try:
        graphs = StaticGraphs(Dictionary(), {name: Path(file) for name, file in config.graph_files.items()})
        graphs.load()
        delays = {name: one.delay for name, one in config.streams.items()}
        about = About.of_queries(config.seed, "freshkeeper serve", _told(config))
        journal = QueryJournal(config.seed, config.journal, state, about)
        settings = MaintenanceSettings(
            PolicyName(config.policy),
            BudgetRule.of(config.budget, config.bank),
            capacity=config.capacity,
            seed=config.seed,
            edges=config.edges == "refreshed",
            audit=config.audit,
            target=config.target,
            observe=partial(_tell, [journal.observe, *observers]),
            state=state,
        )
        queries = Registrations(
            settings, _sources(config), graphs, delays, state, AnswerLog(config.state / "answers"),
            config.dialect, config.most_queries,
        )  # fmt: skip
        service = Service(queries, delays, ServiceLog(config.state / "log"), config.gap, journal)
    except BaseException:
        state.close()
        raise
    _register(service, config)
    return service


def _register(service: Service, config: ServeConfig) -> None:
    """The config's queries; one whose text has changed takes the place of the one that was."""
    for name, one in config.queries.items():
        text = read_text(one.query)
        known = service.queries.all.get(name)
        if known is not None and (known.text, known.dialect) != (text, one.dialect):
            service.delete(name)
            known = None
        if known is None:
            service.register(name, text, one.dialect)


def _sources(config: ServeConfig) -> dict[str, Source]:
    found = {
        name: source_of(written) if isinstance(written, SourceConfig) else load_source(written)
        for name, written in config.sources.items()
    }
    return found | {
        name: replace(found[name], volatile=tuple(predicates)) for name, predicates in config.volatile.items()
    }


def _told(config: ServeConfig) -> dict[str, Any]:
    """All keys; where words that nobody may know stand is one of them, and they themselves are not."""
    return config.model_dump(mode="json")


def _tell(observers: Sequence[Observer], source: str, manager: Manager, evaluation: Evaluation) -> None:
    for observe in observers:
        observe(source, manager, evaluation)
