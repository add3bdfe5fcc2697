"""A trace from a recorded journal: who arrived and what changed, as far as answers and refreshes tell.

What a journal does not tell is said in notes: the range of its window has to be given, what was never answered is not
known, and without changes.parquet changes are known only where a refresh saw one.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshkeeper.policies.arrays import Ints
from freshkeeper.policies.errors import ConfigError, InputError
from freshkeeper.simulator.trace.file_tables import Table, read_parquet
from freshkeeper.simulator.trace.seen_changes import in_order, seen_by_refreshes
from freshkeeper.simulator.trace.trace import Arrivals, Trace, distinct_edges, number
from freshkeeper.simulator.trace.window_arrivals import Counts, arrivals_from

NEEDED = ("t_ms", "sn", "sr", "refreshed_ms")
UNSEEN = "What was never answered is not known: lookup keys and edges that the view lacked, mappings without a join."
AT_ONCE = "An arrival is taken to have come at the first evaluation that counted it."
FEW = 0.01
"""The share of arrivals that may leave too early: what the first window holds is of unknown age."""
ALL_CHANGES = "changes.parquet tells all changes."


@dataclass(frozen=True, eq=False)
class Recorded:
    """A trace, with the step and the number of its evaluations, their words, and what a reader has to know."""

    trace: Trace
    step: int
    evaluations: int
    words: dict[str, str]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Journal:
    """The tables of a journal, of one setting and one seed once they are chosen."""

    place: Path
    whose: dict[str, Any]

    def table(self, name: str) -> Table | None:
        """A table's rows; one that does not say whose they are is of all settings and seeds."""
        path = self.place / f"{name}.parquet"
        if not path.exists():
            return None
        data = read_parquet(path).data
        for column, value in self.whose.items():
            if column in data.column_names:
                data = data.take(np.flatnonzero(pc.equal(pc.fill_null(data[column], value), value).to_numpy()))
        return Table(path, data)

    def answers(self) -> Table:
        """Without answers nothing can be told."""
        found = self.table("answers")
        if found is None or not found.data.num_rows:
            raise InputError(f"{self.place} has no answers; without them nothing is known of arrivals and edges")
        found.must_have(*NEEDED)
        return found


def recorded(place: Path, window: int, setting: str = "") -> Recorded:
    """The trace of one setting of a journal, its first seed; `window` is the range in ms, which no table tells."""
    journal, notes = _one(place, setting)
    answers, evaluations = journal.answers(), journal.table("evaluations")
    first, last, step = _instants(evaluations or answers)
    changes = journal.table("changes")
    changed, said = seen_by_refreshes(answers, journal.table("refreshes")) if changes is None else (changes, "")
    sn_labels, (sn,) = number(answers.words("sn"))
    sr_labels, (sr, changed_sr) = number(answers.words("sr"), changed.words("sr"))
    weight = answers.whole("weight") if "weight" in answers.data.column_names else np.ones(sn.size, np.int64)
    counts = Counts.of((answers.whole("t_ms") - first) // step, sn, weight)
    came, early = arrivals_from(counts, (last - first) // step + 1, -(-window // step), sn_labels.size)
    arrivals = Arrivals(first + came.t_ms * step, came.sn)
    trace = Trace(arrivals, distinct_edges(sn, sr), in_order(changed.whole("t_ms"), changed_sr), sn_labels, sr_labels)
    notes += [UNSEEN, AT_ONCE, said or ALL_CHANGES]
    if early > FEW * len(arrivals):
        notes.append(
            f"{early} window mappings left earlier than a window of {window} ms allows: "
            "the view lacked their lookup keys when they came, or the window is shorter."
        )
    words = {name: _word((evaluations or answers).data, name) for name in ("case", "knowledge")}
    return Recorded(trace, step, (last - trace.t0) // step, words, notes)


def _one(place: Path, setting: str) -> tuple[Journal, list[str]]:
    """The setting that was asked for, or the only one, and its first seed."""
    settings = _values(Journal(place, {}).answers().data, "setting")
    if setting not in settings and (setting or len(settings) > 1):
        names = ", ".join(map(repr, settings)) or "it has none"
        raise ConfigError(f"{place} has no setting {setting!r}; name one of these (--setting): {names}")
    of = setting if setting in settings or not settings else settings[0]
    seeds = _values(Journal(place, {"setting": of}).answers().data, "seed")
    notes = [f"The journal has {len(seeds)} seeds; replayed is what the seed {seeds[0]} met."] if len(seeds) > 1 else []
    return Journal(place, {"setting": of, "seed": seeds[0] if seeds else 0}), notes


def _instants(table: Table) -> tuple[int, int, int]:
    """The first evaluation, the last one, and the step: the least time between two."""
    table.must_have("t_ms")
    instants: Ints = np.unique(table.whole("t_ms"))
    if instants.size < 2:
        raise InputError(f"{table.path} has evaluations at {instants.size} instant; a replay needs two or more")
    return int(instants[0]), int(instants[-1]), int(np.diff(instants).min())


def _word(data: pa.Table, name: str) -> str:
    """What all rows say, or nothing."""
    known = _values(data, name)
    return str(known[0]) if len(known) == 1 else ""


def _values(data: pa.Table, name: str) -> list[Any]:
    if name not in data.column_names or not data.num_rows:
        return []
    coded = data[name].dictionary_encode().unify_dictionaries().combine_chunks()
    assert isinstance(coded, pa.DictionaryArray)
    return sorted(coded.dictionary.to_pylist())
