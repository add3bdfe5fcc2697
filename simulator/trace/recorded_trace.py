"""A trace from a recorded journal: arrivals and changes, as far as answers and refreshes show them.

Arrivals follow from the number of mappings of each SN at each evaluation: from one evaluation to the next, mappings
leave that came one range before, and the rest of the count has arrived since. So the windows of these arrivals hold at
every evaluation what was counted. Changes are those of changes.parquet, or those that refreshes saw.

Notes say what a journal does not have: it lacks the range of its window and everything that was never answered, and
without changes.parquet it has only the changes that a refresh saw.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshkeeper.maintenance.base.arrays import Bools, Ids, Ints
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.journal.journal import check_columns
from freshkeeper.simulator.trace.file_tables import TraceTable, read_parquet
from freshkeeper.simulator.trace.trace import Changes, Trace, TraceArrivals, distinct_edges, number


@dataclass(frozen=True, eq=False)
class MappingCounts:
    """The number of window mappings per evaluation and SN, sorted by evaluation."""

    k: Ints
    sn: Ids
    mappings: Ints

    @classmethod
    def of(cls, k: Ints, sn: Ids, mappings: Ints) -> "MappingCounts":
        """Count mappings: answers of an SN agree whatever the policy, so the largest number is right."""
        order = np.lexsort((mappings, sn, k))
        k, sn, mappings = k[order], sn[order], mappings[order]
        last = np.ones(k.size, bool)
        last[:-1] = (np.diff(k) != 0) | (np.diff(sn) != 0)
        return cls(k[last], sn[last], mappings[last])

    def by_evaluation(self, evaluations: int, sns: int) -> Iterator[Ints]:
        """Yield the counts of all SNs, evaluation by evaluation."""
        ends = np.searchsorted(self.k, np.arange(evaluations), side="right").tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            counts = np.zeros(sns, np.int64)
            counts[self.sn[begin:end]] = self.mappings[begin:end]
            yield counts


def arrivals_from(counts: MappingCounts, evaluations: int, span: int, sns: int) -> tuple[TraceArrivals, int]:
    """Arrivals, timed by evaluation from 0 on, and how many mappings left before their time.

    A mapping stays for `span` evaluations, so what arrives at k has arrived in the place of what came at k − span.
    """
    came = _held_at_first(counts, evaluations, span, sns)
    held = came.sum(axis=0)
    found: list[tuple[int, Ints]] = []
    early = 0
    for k, now in enumerate(counts.by_evaluation(evaluations, sns)):
        if k:
            found.append((k - span, came[k % span].copy()))
            left = held - came[k % span]
            early += int(np.maximum(0, left - now).sum())
            came[k % span] = np.maximum(0, now - left)
            held = left + came[k % span]
    found += [(k - span, came[k % span]) for k in range(evaluations, evaluations + span)]
    return _listed(found), early


def _held_at_first(counts: MappingCounts, evaluations: int, span: int, sns: int) -> Ints:
    """Return the content of the first window by the evaluation (modulo the span) at which it leaves at the latest.

    Of those that leave at r, r + span, ... there are as many as later arrivals in their place fall short of zero.
    """
    change, lowest = np.zeros((span, sns), np.int64), np.zeros((span, sns), np.int64)
    first = before = np.zeros(sns, np.int64)
    for k, now in enumerate(counts.by_evaluation(evaluations, sns)):
        first = first if k else now
        if k:
            change[k % span] += now - before
            lowest[k % span] = np.minimum(lowest[k % span], change[k % span])
        before = now
    leaving = -lowest
    for r in range(1, span):
        leaving[r] = np.minimum(leaving[r], first - leaving[1:r].sum(axis=0))
    leaving[0] = first - leaving[1:].sum(axis=0)
    return leaving


def _listed(found: list[tuple[int, Ints]]) -> TraceArrivals:
    sns = [np.repeat(np.arange(counts.size, dtype=np.int32), counts) for _, counts in found]
    times = [np.full(each.size, k, np.int64) for (k, _), each in zip(found, sns, strict=True)]
    return TraceArrivals(np.concatenate(times), np.concatenate(sns))


def seen_by_refreshes(answers: TraceTable, refreshes: TraceTable | None) -> tuple[TraceTable, str]:
    """Return a change halfway between each refresh that saw one and the copy before, and a note that says so.

    Every policy saw changes of its own; those of the policy that saw most are taken.
    """
    if refreshes is None:
        raise InputError(f"{answers.path.parent} has neither changes nor refreshes, so nothing is known of changes")
    saw = _mask(refreshes.data["changed"])
    policy = _most(refreshes, saw)
    mine, served = _rows(refreshes, policy), _rows(answers, policy)
    labels, (asked, used) = number(refreshes.words("sr"), answers.words("sr"))
    refreshed, copied = refreshes.integers("t_ms"), answers.integers("refreshed_ms")
    came = mine & (~_failed(refreshes))
    sr, t_ms = np.concatenate([asked[came], used[served]]), np.concatenate([refreshed[came], copied[served]])
    seen = came & saw
    at = _halfway(sr, t_ms, asked[seen], refreshed[seen])
    words = pa.DictionaryArray.from_arrays(
        pa.array(asked[seen], pa.int32()), pa.array([str(label) for label in labels], pa.string())
    )
    known = np.unique(asked[seen]).size
    return TraceTable(refreshes.path, pa.table({"sr": words, "t_ms": pa.array(at)})), (
        "Changes are known only where a refresh saw one, and taken to be halfway since the copy before: "
        f"{at.size} changes of {known} entries. All others stay as they are, so a replay is fresher than life would be."
    )


def _halfway(sr: Ids, t_ms: Ints, asked: Ids, refreshed: Ints) -> Ints:
    """Return the middle between each refresh and the copy before it, or the refresh if no copy is known."""
    if not asked.size:
        return np.empty(0, np.int64)
    low = int(t_ms.min())
    width = int(t_ms.max()) - low + 1
    copies = np.unique(sr.astype(np.int64) * width + t_ms - low)
    wanted = asked.astype(np.int64) * width + refreshed - low
    before = copies[np.maximum(np.searchsorted(copies, wanted) - 1, 0)]
    same = (before // width == asked) & (before < wanted)
    return np.where(same, (before % width + low + refreshed + 1) // 2, refreshed)


def _most(refreshes: TraceTable, saw: Bools) -> str | None:
    """Return the policy that saw the most changes."""
    words = refreshes.words("policy", blank=True)
    if not saw.any():
        return None
    most = np.bincount(words.indices.to_numpy()[saw]).argmax()
    return str(words.dictionary[int(most)].as_py())


def _rows(table: TraceTable, policy: str | None) -> Bools:
    if policy is None:
        return np.ones(table.data.num_rows, bool)
    return _mask(pc.equal(table.data["policy"], policy))


def _failed(refreshes: TraceTable) -> Bools:
    return _mask(pc.invert(pc.is_null(refreshes.data["error"])))


def _mask(column: pa.ChunkedArray) -> Bools:
    """Return a column of truth values; null counts as false."""
    found: Bools = np.equal(column.to_numpy(), True)
    return found


NOTE_UNANSWERED = (
    "What was never answered is not known: lookup keys and edges that the view lacked, mappings without a join."
)
NOTE_ARRIVALS = "An arrival is taken to have come at the first evaluation that counted it."
TOLERATED_EARLY_SHARE = 0.01
"""The tolerated share of arrivals that leave too early: the age of the first window's content is unknown."""
NOTE_ALL_CHANGES = "changes.parquet tells all changes."


@dataclass(frozen=True, eq=False)
class RecordedTrace:
    """A trace with the step and number of its evaluations, case and knowledge, and notes for the reader."""

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

    def table(self, name: str) -> TraceTable | None:
        """Return the rows of a table, or None where the journal has no such table."""
        path = self.place / f"{name}.parquet"
        if not path.exists():
            return None
        data = read_parquet(path).data
        check_columns(path, name, data.column_names)
        for column, value in self.whose.items():
            data = data.take(np.flatnonzero(pc.equal(pc.fill_null(data[column], value), value).to_numpy()))
        return TraceTable(path, data)

    def answers(self) -> TraceTable:
        """Return the answers; raise InputError if the journal has none."""
        found = self.table("answers")
        if found is None or not found.data.num_rows:
            raise InputError(f"{self.place} has no answers; without them nothing is known of arrivals and edges")
        return found


def recorded(place: Path, window: int, setting: str = "") -> RecordedTrace:
    """Return the trace of one setting of a journal, with its first seed.

    `window` is the range in ms, which no table of a journal holds.
    """
    journal, notes = _one(place, setting)
    answers, evaluations = journal.answers(), journal.table("evaluations")
    first, last, step = _instants(evaluations or answers)
    changed, note = journal.table("changes"), NOTE_ALL_CHANGES
    if changed is None:
        changed, note = seen_by_refreshes(answers, journal.table("refreshes"))
    sn_labels, (sn,) = number(answers.words("sn"))
    sr_labels, (sr, changed_sr) = number(answers.words("sr"), changed.words("sr"))
    counts = MappingCounts.of((answers.integers("t_ms") - first) // step, sn, answers.integers("weight"))
    came, early = arrivals_from(counts, (last - first) // step + 1, -(-window // step), sn_labels.size)
    arrivals = TraceArrivals(first + came.t_ms * step, came.sn)
    truth = Changes.in_order(changed.integers("t_ms"), changed_sr)
    trace = Trace(arrivals, distinct_edges(sn, sr), truth, sn_labels, sr_labels)
    notes += [NOTE_UNANSWERED, NOTE_ARRIVALS, note]
    if early > TOLERATED_EARLY_SHARE * len(arrivals):
        notes.append(
            f"{early} window mappings left earlier than a window of {window} ms allows: "
            "the view lacked their lookup keys when they came, or the window is shorter."
        )
    words = {name: _word((evaluations or answers).data, name) for name in ("case", "knowledge")}
    return RecordedTrace(trace, step, (last - trace.t0) // step, words, notes)


def changes_seen(place: Path) -> TraceTable:
    """Return the changes in a journal, of all settings: its table of changes, or those that refreshes saw."""
    journal = Journal(place, {})
    changes = journal.table("changes")
    if changes is None:
        changes, _ = seen_by_refreshes(journal.answers(), journal.table("refreshes"))
    return changes


def _one(place: Path, setting: str) -> tuple[Journal, list[str]]:
    """Return the tables of the requested setting (or the only one) with its first seed, and notes."""
    settings = _values(Journal(place, {}).answers().data, "setting")
    if setting not in settings and (setting or len(settings) > 1):
        names = ", ".join(map(repr, settings)) or "it has none"
        raise ConfigError(f"{place} has no setting {setting!r}; name one of these (--setting): {names}")
    if settings and setting not in settings:
        setting = settings[0]
    seeds = _values(Journal(place, {"setting": setting}).answers().data, "seed") or [0]
    notes = []
    if len(seeds) > 1:
        notes.append(f"The journal has {len(seeds)} seeds; replayed is what the seed {seeds[0]} met.")
    return Journal(place, {"setting": setting, "seed": seeds[0]}), notes


def _instants(table: TraceTable) -> tuple[int, int, int]:
    """Return the first and the last evaluation, and the step: the least time between two."""
    instants: Ints = np.unique(table.integers("t_ms"))
    if instants.size < 2:
        raise InputError(f"{table.path} has evaluations at {instants.size} instant; a replay needs two or more")
    return int(instants[0]), int(instants[-1]), int(np.diff(instants).min())


def _word(data: pa.Table, name: str) -> str:
    """Return the value that all rows share, or an empty string."""
    known = _values(data, name)
    if len(known) != 1:
        return ""
    return str(known[0])


def _values(data: pa.Table, name: str) -> list[Any]:
    if name not in data.column_names or not data.num_rows:  # answers do not name their level of knowledge
        return []
    coded = data[name].dictionary_encode().unify_dictionaries().combine_chunks()
    assert isinstance(coded, pa.DictionaryArray)
    return sorted(coded.dictionary.to_pylist())
