"""Changes as far as refreshes saw them: the truth that there is where nobody recorded it."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshkeeper.policies.arrays import Bools, Ids, Ints
from freshkeeper.policies.errors import InputError
from freshkeeper.simulator.trace.file_tables import Table
from freshkeeper.simulator.trace.trace import Changes, number


def seen_by_refreshes(answers: Table, refreshes: Table | None) -> tuple[Table, str]:
    """One change halfway between each refresh that saw one and the copy before, and a sentence that says so.

    Every policy saw changes of its own; those of the policy that saw most are taken.
    """
    if refreshes is None:
        raise InputError(f"{answers.path.parent} has neither changes nor refreshes, so nothing is known of changes")
    refreshes.must_have("t_ms", "sr", "changed")
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


def in_order(t_ms: Ints, sr: Ids) -> Changes:
    """Changes sorted by time."""
    order = np.argsort(t_ms, kind="stable")
    return Changes(t_ms[order], sr[order])


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
    if "policy" not in refreshes.data.column_names:
        return None
    words = refreshes.words("policy", blank=True)
    if not saw.any():
        return None
    most = np.bincount(words.indices.to_numpy()[saw]).argmax()
    return str(words.dictionary[int(most)].as_py())


def _rows(table: Table, policy: str | None) -> Bools:
    if policy is None or "policy" not in table.data.column_names:
        return np.ones(table.data.num_rows, bool)
    return _mask(pc.equal(table.data["policy"], policy))


def _failed(refreshes: Table) -> Bools:
    if "error" not in refreshes.data.column_names:
        return np.zeros(refreshes.data.num_rows, bool)
    return _mask(pc.invert(pc.is_null(refreshes.data["error"])))


def _mask(column: pa.ChunkedArray) -> Bools:
    """A column of truth values; what is not known is not so."""
    found: Bools = np.equal(column.to_numpy(), True)
    return found
