"""Members by the ids that they have in common, beside a dictionary of lists."""

import numpy as np

from freshkeeper.maintenance.engine.columns.group_index import GroupIndex


def test_groups_that_are_empty_are_forgotten_and_the_others_are_found() -> None:
    index, rng = GroupIndex(), np.random.default_rng(0)
    held: dict[int, int] = {}
    for begin in range(0, 40_000, 500):
        members, keys = np.arange(begin, begin + 500) % 3_000, rng.integers(0, 10**6, 500)
        gone = np.array([m for m in members.tolist() if m in held], np.int64)
        index.remove(gone)
        for member in gone.tolist():
            del held[member]
        index.add(members, [keys])
        held |= dict(zip(members.tolist(), keys.tolist(), strict=True))
    wanted = np.array(sorted(set(held.values())), np.int64)
    groups, total = index.find([wanted], wanted.size)
    rows, members = index.expand(groups, total)
    assert {m: int(wanted[r]) for r, m in zip(rows.tolist(), members.tolist(), strict=True)} == held
    assert index.groups < 3 * 3_000
