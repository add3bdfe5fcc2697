"""Structured logs: one JSON object per line on standard error, for machines; nothing in them comes from a secret."""

import json
import logging
import sys
from typing import TextIO

from freshkeeper.maintenance.base.addresses import shown_in
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.fetching.fetch_errors import kind_of

LOGGER = logging.getLogger("freshkeeper")
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Json(logging.Formatter):
    """A record as one line of JSON: time, level, what happened, and its numbers."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        said = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower()}
        told = getattr(record, "told", {})
        return json.dumps(shown_in({**said, "event": record.getMessage(), **told}), ensure_ascii=False)


def start(level: str, stream: TextIO | None = None) -> None:
    """Log what is at least so important."""
    if level not in LEVELS:
        raise ConfigError(f"--log {level}: it is debug, info, warning or error")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(LEVELS[level])
    LOGGER.propagate = False
    logging.getLogger().handlers = [handler]  # what libraries have to say is a line like the others


def tell(level: int, event: str, **told: object) -> None:
    """Log an event, with what is told of it, in one line."""
    LOGGER.log(level, event, extra={"told": told})


def observe(source: str, manager: Manager, evaluation: Evaluation) -> None:
    """An evaluation at debug, failures as a warning each kind, a budget overspent as an error."""
    record = evaluation.record
    if LOGGER.isEnabledFor(logging.DEBUG):
        numbers = {"results": record.results, "expected_fresh": round(record.expected_fresh, 3)}
        money = {"budget": record.budget, "spent": record.spent, "errors": record.errors}
        times = {"decide_us": round(record.decide_us), "fetch_ms": round(record.fetch_ms, 2)}
        tell(logging.DEBUG, "evaluation", source=source, t=record.t_ms, **numbers, **money, **times)
    kinds: dict[str, list[str]] = {}
    for error in evaluation.refreshes.errors:
        if error is not None:
            kinds.setdefault(kind_of(error), []).append(error)
    for kind, errors in kinds.items():
        tell(
            logging.WARNING, "fetch failed", source=source, t=record.t_ms, kind=kind, count=len(errors), first=errors[0]
        )
    if manager.ledger.over_budget:
        tell(logging.ERROR, "over budget", source=source, t=record.t_ms, spent=float(manager.ledger.spent))
