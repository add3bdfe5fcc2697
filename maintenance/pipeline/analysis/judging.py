"""Answers judged by the truth in one pass over columns of numbers: all that any table needs of them, summed.

A *copy* is what was fetched of an SR at one instant. It is fresh until the first change strictly after that instant,
so every copy has one end, and an answer at t is fresh iff t comes before it: "no change in (refreshed, t]". Answers of
one evaluation that were made of one copy are taken together first; their weight is then the SR's demand. What is summed
can be added up, so answers are judged piece by piece, wherever there is room, as long as evaluations are whole.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.pipeline.analysis.known import UNKNOWN, Known, coded, grouped
from freshkeeper.policies.arrays import Bools, Floats, Ints

SUBS = 64
"""Ages are kept to one part in so many, so that memory does not grow with the answers."""
RUN = {"setting": pa.string(), "policy": pa.string(), "seed": pa.int64()}
EVALUATION = {**RUN, "case": pa.string(), "moment": pa.int64(), "t_ms": pa.int64()}
COUNTED = {"held": pa.float64(), "true_fresh": pa.float64()}
MISSED = dict.fromkeys(("stale_entries", "missed", "stale_answers", "missed_answers"), pa.int64())
TABLES = {
    "truths": ({**EVALUATION, "counts": pa.bool_()}, {**COUNTED, **MISSED}),
    "served_entries": ({**RUN, "sr": pa.string()}, dict.fromkeys(("answers", "stale"), pa.int64())),
    "served_copies": ({**RUN, "sr": pa.string(), "refreshed_ms": pa.int64()}, {}),
    "served_edges": ({"setting": pa.string(), "seed": pa.int64(), "sr": pa.string(), "sn": pa.string()}, {}),
    "stale_times": (
        {"setting": pa.string(), "policy": pa.string(), "what": pa.string(), "ms": pa.int64()},
        {"answers": pa.int64()},
    ),
}
"""What comes out: the columns that tell rows apart, and those that are added up."""
Parts = dict[str, pa.Table]
Columns = dict[str, pa.Array | pa.ChunkedArray | Ints | Floats | Bools]


def together(parts: Sequence[Parts]) -> Parts:
    """What several pieces gave, added up."""
    return {name: _added(name, [part[name] for part in parts]) for name in TABLES}


def _added(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    keys, sums = TABLES[name]
    rows = pa.concat_tables([pa.schema({**keys, **sums}).empty_table(), *parts])
    found = rows.group_by(list(keys), use_threads=False).aggregate([(column, "sum") for column in sums])
    found = found.select([*keys, *(f"{column}_sum" for column in sums)]).rename_columns([*keys, *sums])
    return found.cast(pa.schema({**keys, **sums}))


def _sums(groups: Ints, values: Ints | Bools, size: int) -> Ints:
    return np.bincount(groups, values, size).astype(np.int64)


class Judged:
    """Answers of whole evaluations as arrays, judged."""

    def __init__(self, rows: pa.Table, known: Known) -> None:
        """A run here is a setting, policy, case and seed; there are few of them."""
        self.known = known
        self.words, codes = {}, {}
        for name in ("setting", "policy", "case", "sr", "sn"):
            codes[name], self.words[name] = coded(rows[name])
        numbers = {name: rows[name].to_numpy() for name in ("seed", "moment", "t_ms", "weight", "refreshed_ms")}
        self.sr, self.sn, self.weight = codes["sr"], codes["sn"], numbers["weight"]
        whose = [codes["setting"], codes["policy"], codes["case"], numbers["seed"]]
        first, self.evaluation = grouped(*whose, numbers["moment"])
        self.moment, self.t_ms = numbers["moment"][first], numbers["t_ms"][first]
        run, self.run = grouped(*(column[first] for column in whose))
        self.runs = [(*self._words_of(codes, row), int(numbers["seed"][row])) for row in first[run]]
        self._judge(numbers["refreshed_ms"])

    def _words_of(self, codes: dict[str, Ints], row: int) -> tuple[Any, ...]:
        return tuple(self.words[name][int(codes[name][row])].as_py() for name in ("setting", "policy", "case"))

    def _judge(self, refreshed: Ints) -> None:
        """Every copy that an evaluation has served, its demand, and from when on it was stale."""
        known = self.known
        self.worlds = np.array([known.world(run[0], run[3]) for run in self.runs], np.int64)
        numbers = np.array([known.runs.get((run[0], run[1], run[3]), -1) for run in self.runs], np.int64)
        at = known.evaluation(numbers[self.run], self.moment)
        there, self.counts = known.counting(at)
        cell, self.cell = grouped(self.evaluation, self.sr, refreshed)
        self.of, self.entry, self.refreshed = self.evaluation[cell], self.sr[cell], refreshed[cell]
        self.demand = _sums(self.cell, self.weight, cell.size)
        entries = known.numbers(self.words["sr"])[self.entry]
        self.stale_from = known.stale_from(self.worlds[self.run[self.of]], entries, self.refreshed)
        self.fresh = self.t_ms[self.of] < self.stale_from
        self.chosen = known.was_chosen(at[self.of], entries)
        self.dated, self.counting = there[self.of] & (self.refreshed != UNKNOWN), self.counts[self.of]

    def parts(self) -> Parts:
        """Everything that is asked of them."""
        found = {
            "truths": self._truths(),
            "served_entries": self._entries(),
            "served_copies": self._copies(),
            "served_edges": self._edges(),
            "stale_times": self._stale_times(),
        }
        return {name: pa.table(found[name], pa.schema({**keys, **sums})) for name, (keys, sums) in TABLES.items()}

    def _of_runs(self, runs: Ints, *names: str) -> Columns:
        places = {"setting": 0, "policy": 1, "case": 2, "seed": 3}
        return {name: pa.array([run[places[name]] for run in self.runs]).take(pa.array(runs)) for name in names}

    def _truths(self) -> Columns:
        """Fresh and held answers of every evaluation: edge by edge, or aggregates, which have one for each mapping."""
        held, fresh = self._edge_by_edge()
        whose = self._of_runs(self.run, "setting", "policy", "case", "seed")
        own = {"moment": self.moment, "t_ms": self.t_ms, "counts": self.counts, "held": held, "true_fresh": fresh}
        return whose | own | self._missed()

    def _edge_by_edge(self) -> tuple[Floats, Floats]:
        size = self.moment.size
        whole = np.array([run[2] == "aggregate" and self.known.lookup_keys for run in self.runs], bool)[self.run]
        edges = ~whole[self.of]
        held = np.bincount(self.of[edges], self.demand[edges], size).astype(np.float64)
        fresh = np.bincount(self.of[edges], (self.demand * self.fresh)[edges], size).astype(np.float64)
        rows = np.flatnonzero(whole[self.evaluation])
        if rows.size:
            first, unit = grouped(self.evaluation[rows], self.sn[rows])
            mappings = np.zeros(first.size, np.int64)
            np.maximum.at(mappings, unit, self.weight[rows])
            stale = np.bincount(unit, ~self.fresh[self.cell[rows]], first.size)
            of = self.evaluation[rows[first]]
            held += np.bincount(of, mappings, size)
            fresh += np.bincount(of, mappings * (stale == 0), size)
        return held, fresh

    def _missed(self) -> Columns:
        """Stale SRs that were not chosen though at least as many answers needed them as the mean one that was chosen.

        Where nothing was chosen, or nothing that answers needed, the mean is over all SRs of the evaluation.
        """
        size, of, demand = self.moment.size, self.of, self.demand
        number, chosen = np.bincount(of, minlength=size), np.bincount(of, self.chosen, size)
        usual = np.bincount(of, demand, size) / np.maximum(number, 1)
        some = chosen > 0
        usual[some] = np.bincount(of, demand * self.chosen, size)[some] / chosen[some]
        stale = self.counting & ~self.fresh
        lost = stale & ~self.chosen & (demand >= usual[of])
        return {
            "stale_entries": _sums(of, stale, size),
            "missed": _sums(of, lost, size),
            "stale_answers": _sums(of, demand * stale, size),
            "missed_answers": _sums(of, demand * lost, size),
        }

    def _entries(self) -> Columns:
        """Answers and stale answers of every SR over the evaluations that count."""
        rows = np.flatnonzero(self.counting)
        run, entry, demand = self.run[self.of[rows]], self.entry[rows], self.demand[rows]
        first, group = grouped(run, entry)
        sums = {
            "answers": _sums(group, demand, first.size),
            "stale": _sums(group, demand * ~self.fresh[rows], first.size),
        }
        return self._of_runs(run[first], *RUN) | {"sr": self._word("sr", entry[first])} | sums

    def _copies(self) -> Columns:
        """The copies that answers were made of, which tell what a refresh replaced."""
        rows = np.flatnonzero(self.dated)
        run, entry, refreshed = self.run[self.of[rows]], self.entry[rows], self.refreshed[rows]
        first, _ = grouped(run, entry, refreshed)
        whose = self._of_runs(run[first], *RUN)
        return {**whose, "sr": self._word("sr", entry[first]), "refreshed_ms": refreshed[first]}

    def _edges(self) -> Columns:
        """With which SNs each SR was served, where answers name them."""
        rows = np.flatnonzero(self.sn >= 0)
        run, sr, sn = self.run[self.evaluation[rows]], self.sr[rows], self.sn[rows]
        first, _ = grouped(run, sr, sn)
        own = {"sr": self._word("sr", sr[first]), "sn": self._word("sn", sn[first])}
        return self._of_runs(run[first], "setting", "seed") | own

    def _stale_times(self) -> Columns:
        """For how long the copies of stale answers had been stale (`overdue`) and how old they were (`age`), in ms that
        are rounded down to a 64th of their octave."""
        rows = np.flatnonzero(self.counting & self.dated & ~self.fresh)
        of, demand = self.of[rows], self.demand[rows]
        now = self.t_ms[of]
        found = []
        for what, since in (("overdue", self.stale_from[rows]), ("age", self.refreshed[rows])):
            ms = _rounded(now - since)
            first, group = grouped(self.run[of], ms)
            sums = {"ms": ms[first], "answers": _sums(group, demand, first.size)}
            whose = self._of_runs(self.run[of[first]], "setting", "policy")
            found.append(pa.table({**whose, "what": pa.repeat(what, first.size), **sums}))
        both = pa.concat_tables(found)
        return {name: both[name] for name in both.column_names}

    def _word(self, name: str, codes: Ints) -> pa.Array:
        return self.words[name].take(pa.array(codes))


def _rounded(ms: Ints) -> Ints:
    octave = np.frexp(ms.astype(np.float64))[1] - 1
    step: Ints = 2 ** np.maximum(octave, 6).astype(np.int64) // SUBS
    return ms - ms % step
