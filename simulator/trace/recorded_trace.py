"""A trace from a recorded journal: who arrived and what changed, as far as answers and refreshes tell.

Arrivals follow from how many mappings each SN had at each evaluation: from one to the next those leave that came one
range before, and what a count has more than what is left then has arrived since. So the windows of these arrivals hold
at every evaluation what was counted. Changes are those of changes.parquet, else those that refreshes saw.

What a journal does not tell is said in notes: the range of its window has to be given, what was never answered is not
known, and without changes.parquet changes are known only where a refresh saw one.
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
from freshkeeper.simulator.trace.file_tables import Table, read_parquet
from freshkeeper.simulator.trace.trace import Arrivals, Changes, Trace, distinct_edges, number


@dataclass(frozen=True, eq=False)
class Counts:
    """How many mappings SNs had, one row per evaluation and SN, sorted by evaluation."""

    k: Ints
    sn: Ids
    mappings: Ints

    @classmethod
    def of(cls, k: Ints, sn: Ids, mappings: Ints) -> "Counts":
        """All answers of an SN, with whatever policy, say the same of it; the largest number is right."""
        order = np.lexsort((mappings, sn, k))
        k, sn, mappings = k[order], sn[order], mappings[order]
        last = np.ones(k.size, bool)
        last[:-1] = (np.diff(k) != 0) | (np.diff(sn) != 0)
        return cls(k[last], sn[last], mappings[last])

    def each(self, evaluations: int, sns: int) -> Iterator[Ints]:
        """The counts of all SNs, evaluation by evaluation."""
        ends = np.searchsorted(self.k, np.arange(evaluations), side="right").tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            counts = np.zeros(sns, np.int64)
            counts[self.sn[begin:end]] = self.mappings[begin:end]
            yield counts


def arrivals_from(counts: Counts, evaluations: int, span: int, sns: int) -> tuple[Arrivals, int]:
    """Arrivals, timed by evaluation from 0 on, and how many mappings left before their time.

    A mapping stays for `span` evaluations, so what arrives at k has arrived in the place of what came at k − span.
    """
    came = _held_at_first(counts, evaluations, span, sns)
    held = came.sum(axis=0)
    found: list[tuple[int, Ints]] = []
    early = 0
    for k, now in enumerate(counts.each(evaluations, sns)):
        if k:
            found.append((k - span, came[k % span].copy()))
            left = held - came[k % span]
            early += int(np.maximum(0, left - now).sum())
            came[k % span] = np.maximum(0, now - left)
            held = left + came[k % span]
    found += [(k - span, came[k % span]) for k in range(evaluations, evaluations + span)]
    return _listed(found), early


def _held_at_first(counts: Counts, evaluations: int, span: int, sns: int) -> Ints:
    """What the first window holds, by the evaluation (modulo the span) at which it leaves: the latest that can be.

    Of those that leave at r, r + span, ... there are as many as later arrivals in their place fall short of zero.
    """
    change, lowest = np.zeros((span, sns), np.int64), np.zeros((span, sns), np.int64)
    first = before = np.zeros(sns, np.int64)
    for k, now in enumerate(counts.each(evaluations, sns)):
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


def _listed(found: list[tuple[int, Ints]]) -> Arrivals:
    sns = [np.repeat(np.arange(counts.size, dtype=np.int32), counts) for _, counts in found]
    times = [np.full(each.size, k, np.int64) for (k, _), each in zip(found, sns, strict=True)]
    return Arrivals(np.concatenate(times), np.concatenate(sns))


def seen_by_refreshes(answers: Table, refreshes: Table | None) -> tuple[Table, str]:
    """One change halfway between each refresh that saw one and the copy before, and a sentence that says so.

    Every policy saw changes of its own; those of the policy that saw most are taken.
    """
    if refreshes is None:
        raise InputError(f"{answers.path.parent} has neither changes nor refreshes, so nothing is known of changes")
    saw = _mask(refreshes.data["changed"])
    policy = _most(refreshes, saw)
    mine, served = _rows(refreshes, policy), _rows(answers, policy)
    labels, (asked, used) = number(refreshes.words("sr"), answers.words("sr"))
    refreshed, copied = refreshes.whole("t_ms"), answers.whole("refreshed_ms")
    came = mine & (~_failed(refreshes))
    sr, t_ms = np.concatenate([asked[came], used[served]]), np.concatenate([refreshed[came], copied[served]])
    seen = came & saw
    at = _halfway(sr, t_ms, asked[seen], refreshed[seen])
    words = pa.DictionaryArray.from_arrays(
        pa.array(asked[seen], pa.int32()), pa.array([str(label) for label in labels], pa.string())
    )
    known = np.unique(asked[seen]).size
    return Table(refreshes.path, pa.table({"sr": words, "t_ms": pa.array(at)})), (
        "Changes are known only where a refresh saw one, and taken to be halfway since the copy before: "
        f"{at.size} changes of {known} entries. All others stay as they are, so a replay is fresher than life would be."
    )


def _halfway(sr: Ids, t_ms: Ints, asked: Ids, refreshed: Ints) -> Ints:
    """Between each refresh and the copy before; the refresh itself where none is known."""
    if not asked.size:
        return np.empty(0, np.int64)
    low = int(t_ms.min())
    width = int(t_ms.max()) - low + 1
    copies = np.unique(sr.astype(np.int64) * width + t_ms - low)
    wanted = asked.astype(np.int64) * width + refreshed - low
    before = copies[np.maximum(np.searchsorted(copies, wanted) - 1, 0)]
    same = (before // width == asked) & (before < wanted)
    return np.where(same, (before % width + low + refreshed + 1) // 2, refreshed)


def _most(refreshes: Table, saw: Bools) -> str | None:
    """The policy that saw most changes."""
    words = refreshes.words("policy", blank=True)
    if not saw.any():
        return None
    most = np.bincount(words.indices.to_numpy()[saw]).argmax()
    return str(words.dictionary[int(most)].as_py())


def _rows(table: Table, policy: str | None) -> Bools:
    if policy is None:
        return np.ones(table.data.num_rows, bool)
    return _mask(pc.equal(table.data["policy"], policy))


def _failed(refreshes: Table) -> Bools:
    return _mask(pc.invert(pc.is_null(refreshes.data["error"])))


def _mask(column: pa.ChunkedArray) -> Bools:
    """A column of truth values; what is not known is not so."""
    found: Bools = np.equal(column.to_numpy(), True)
    return found


UNSEEN = "What was never answered is not known: lookup keys and edges that the view lacked, mappings without a join."
AT_ONCE = "An arrival is taken to have come at the first evaluation that counted it."
FEW = 0.01
"""The share of arrivals that may leave too early: what the first window holds is of unknown age."""
ALL_CHANGES = "changes.parquet tells all changes."


@dataclass(frozen=True, eq=False)
class RecordedTrace:
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
        """Return the rows of a table, or None where the journal has no such table."""
        path = self.place / f"{name}.parquet"
        if not path.exists():
            return None
        data = read_parquet(path).data
        check_columns(path, name, data.column_names)
        for column, value in self.whose.items():
            data = data.take(np.flatnonzero(pc.equal(pc.fill_null(data[column], value), value).to_numpy()))
        return Table(path, data)

    def answers(self) -> Table:
        """Without answers nothing can be told."""
        found = self.table("answers")
        if found is None or not found.data.num_rows:
            raise InputError(f"{self.place} has no answers; without them nothing is known of arrivals and edges")
        return found


def recorded(place: Path, window: int, setting: str = "") -> RecordedTrace:
    """The trace of one setting of a journal, its first seed; `window` is the range in ms, which no table tells."""
    journal, notes = _one(place, setting)
    answers, evaluations = journal.answers(), journal.table("evaluations")
    first, last, step = _instants(evaluations or answers)
    changes = journal.table("changes")
    changed, said = seen_by_refreshes(answers, journal.table("refreshes")) if changes is None else (changes, "")
    sn_labels, (sn,) = number(answers.words("sn"))
    sr_labels, (sr, changed_sr) = number(answers.words("sr"), changed.words("sr"))
    counts = Counts.of((answers.whole("t_ms") - first) // step, sn, answers.whole("weight"))
    came, early = arrivals_from(counts, (last - first) // step + 1, -(-window // step), sn_labels.size)
    arrivals = Arrivals(first + came.t_ms * step, came.sn)
    truth = Changes.in_order(changed.whole("t_ms"), changed_sr)
    trace = Trace(arrivals, distinct_edges(sn, sr), truth, sn_labels, sr_labels)
    notes += [UNSEEN, AT_ONCE, said or ALL_CHANGES]
    if early > FEW * len(arrivals):
        notes.append(
            f"{early} window mappings left earlier than a window of {window} ms allows: "
            "the view lacked their lookup keys when they came, or the window is shorter."
        )
    words = {name: _word((evaluations or answers).data, name) for name in ("case", "knowledge")}
    return RecordedTrace(trace, step, (last - trace.t0) // step, words, notes)


def changes_seen(place: Path) -> Table:
    """The changes that a journal knows, of all its settings: its table of them, else what refreshes saw."""
    journal = Journal(place, {})
    changes = journal.table("changes")
    return changes if changes is not None else seen_by_refreshes(journal.answers(), journal.table("refreshes"))[0]


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
    instants: Ints = np.unique(table.whole("t_ms"))
    if instants.size < 2:
        raise InputError(f"{table.path} has evaluations at {instants.size} instant; a replay needs two or more")
    return int(instants[0]), int(instants[-1]), int(np.diff(instants).min())


def _word(data: pa.Table, name: str) -> str:
    """What all rows say, or nothing."""
    known = _values(data, name)
    return str(known[0]) if len(known) == 1 else ""


def _values(data: pa.Table, name: str) -> list[Any]:
    if name not in data.column_names or not data.num_rows:  # answers do not name their level of knowledge
        return []
    coded = data[name].dictionary_encode().unify_dictionaries().combine_chunks()
    assert isinstance(coded, pa.DictionaryArray)
    return sorted(coded.dictionary.to_pylist())
