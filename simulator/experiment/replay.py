"""Replays: recorded arrivals and changes under other policies, budgets and knowledge.

What is replayed is a trace, what run.json of a run says it was made of, or a recorded journal as far as it tells.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.journal.run_json import About, Setting
from freshkeeper.simulator.experiment.experiment_config import Experiment, resolve
from freshkeeper.simulator.experiment.run_parts import recorded_trace
from freshkeeper.simulator.experiment.summary import SummaryRow
from freshkeeper.simulator.trace.describe import STEPS_PER_WINDOW, suggested_step
from freshkeeper.simulator.trace.recorded_trace import recorded
from freshkeeper.simulator.trace.trace import FORMATS, write_trace

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Replay:
    """The experiment to run, and notes for the reader."""

    experiment: Experiment
    notes: list[str] = field(default_factory=list)


def replay_of(place: Path, changes: Changes, trace: Path, setting: str = "") -> Replay:
    """Return the experiment that replays a directory with some keys changed; write a journal's trace to `trace`."""
    if any((place / f"{name}.{form}").exists() for name in ("arrivals", "edges") for form in FORMATS):
        return _of_trace(place, changes)
    about = About.read(place) or About()
    if "workload" in about.config:
        again = _again(place, about.config, changes)
        why = "" if {"window", "step"} & set(changes) else "as in the run"
        return Replay(again, [_evaluated(again.window, again.step, why)])
    if (place / "answers.parquet").exists() or (place / "evaluations.parquet").exists():
        return _journal(place, about, changes, trace, setting)
    if not place.is_dir():
        raise InputError(f"there is no directory {place}: name a run, a journal or a trace")
    raise InputError(f"{place} is neither a run, nor a journal, nor a trace (tables arrivals, edges, changes)")


def cheapest(rows: Iterable[SummaryRow], target: float) -> dict[tuple[str, str, str, float], SummaryRow | None]:
    """Return per policy, case, knowledge and bank the row with the least budget that keeps the target, or None."""
    found: dict[tuple[str, str, str, float], SummaryRow | None] = {}
    for row in sorted(rows, key=lambda row: row.budget):
        whose = (row.policy, row.case, row.knowledge, row.bank)
        met = row.freshness is not None and row.freshness >= target and not row.over_budget
        if met and found.get(whose) is None:  # rows come by budget, so the first that is fresh enough is the cheapest
            found[whose] = row
        found.setdefault(whose, None)
    return found


def fit_to_trace(experiment: Experiment) -> tuple[Experiment, list[str]]:
    """Take window and step from the arrivals of a recorded trace unless they are given, and one seed; say so.

    The paper's window of 4 s over a recording of a year would show next to no arrivals, and so no staleness.
    """
    given = experiment.model_fields_set | experiment.sweep.keys()
    if "trace" in experiment.sweep and not {"window", "step"} <= given:
        raise ConfigError("sweep.trace: say window and step, which must be the same for all traces")
    if experiment.trace is None:
        return experiment, []
    # The seeds of a recorded trace break ties alone, so that one of them is enough.
    found: dict[str, Any] = {} if "seeds" in given else {"seeds": 1}
    notes = []
    if not {"window", "step"} <= given:
        step = experiment.step if "step" in given else suggested_step(recorded_trace(experiment.trace))
        found |= {"step": step, "window": experiment.window if "window" in given else STEPS_PER_WINDOW * step}
        notes = [_evaluated(found["window"], step, "as its arrivals suggest; --window and --step say otherwise")]
    return experiment.model_copy(update=found), notes


def _of_trace(place: Path, changes: Changes) -> Replay:
    """Replay a trace under the given window, or the one that its arrivals suggest."""
    made, notes = fit_to_trace(resolve({"trace": str(place)}, changes))
    return Replay(made, notes or [_evaluated(made.window, made.step)])


def _evaluated(window: int, step: int, why: str = "") -> str:
    """Describe the window in words."""
    said = f"Window {to_unit(window)}, step {to_unit(step)}"
    if why:
        said += f": {why}"
    return f"{said}."


def _again(place: Path, config: dict[str, Any], changes: Changes) -> Experiment:
    """Return the run's config; defaults are left out, so that they do not count as given."""
    if config.get("trace"):
        config = {key: value for key, value in config.items() if key != "workload"}
        if not Path(config["trace"]).is_dir():
            raise InputError(f"{place} was made of the trace {config['trace']}, which is not there; name it instead")
    again = resolve(config)
    plain = again.model_dump(mode="json", exclude_defaults=True)
    for key in {"window", "step"} - again.sweep.keys():  # of a trace, defaults would be fitted to it
        plain[key] = getattr(again, key)
    return resolve(plain, changes)


def _journal(place: Path, about: About, changes: Changes, trace: Path, setting: str) -> Replay:
    only = next(iter(about.settings.values())) if len(about.settings) == 1 else Setting()
    window = changes.get("window") or about.settings.get(setting, only).range_ms
    if window is None:
        raise ConfigError(f"{place} does not say how long its window is; give it with --window, as 10s")
    range_ms = resolve({"window": window}).window
    found = recorded(place, range_ms, setting)
    write_trace(found.trace, trace, "parquet", overwrite=True)
    words = {key: word for key, word in found.words.items() if word}
    own = {"trace": str(trace), "window": range_ms, "step": found.step, "evaluations": found.evaluations, "seeds": 1}
    made = resolve(own | words, changes)
    return Replay(made, [_evaluated(made.window, made.step, "the step is the journal's"), *found.notes])
