"""Structured logs: one JSON object per line on standard error, without secrets."""

import json
import logging
import sys
from typing import TextIO

from freshkeeper.maintenance.base.addresses import mask_secrets_in
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.fetching.fetch_errors import kind_of

LOGGER = logging.getLogger("freshkeeper")
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Json(logging.Formatter):
    """A formatter that writes a record as one line of JSON: time, level, event and its numbers."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "details", {}),
        }
        return json.dumps(mask_secrets_in(line), ensure_ascii=False)


def start(level: str, stream: TextIO | None = None) -> None:
    if level not in LEVELS:
        raise ConfigError(f"--log {level}: it is debug, info, warning or error")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(LEVELS[level])
    LOGGER.propagate = False
    logging.getLogger().handlers = [handler]  # records of libraries become lines of JSON, too


def log_event(level: int, event: str, **details: object) -> None:
    """Log an event with its details, in one line."""
    LOGGER.log(level, event, extra={"details": details})


def observe(source: str, manager: Manager, evaluation: Evaluation) -> None:
    """Log an evaluation at debug, each kind of failed fetches as a warning, and an overspent budget as an error."""
    record = evaluation.record
    if LOGGER.isEnabledFor(logging.DEBUG):
        log_event(
            logging.DEBUG,
            "evaluation",
            source=source,
            t=record.t_ms,
            results=record.results,
            expected_fresh=round(record.expected_fresh, 3),
            budget=record.budget,
            spent=record.spent,
            errors=record.errors,
            decide_us=round(record.decide_us),
            fetch_ms=round(record.fetch_ms, 2),
        )
    kinds: dict[str, list[str]] = {}
    for error in evaluation.refreshes.errors:
        if error is not None:
            kinds.setdefault(kind_of(error), []).append(error)
    for kind, errors in kinds.items():
        details = {"kind": kind, "count": len(errors), "first": errors[0]}
        log_event(logging.WARNING, "fetch failed", source=source, t=record.t_ms, **details)
    if manager.runner.error:
        log_event(logging.ERROR, "policy failed", source=source, t=record.t_ms, error=manager.runner.error)
    if manager.ledger.over_budget:
        log_event(logging.ERROR, "over budget", source=source, t=record.t_ms, spent=float(manager.ledger.spent))
