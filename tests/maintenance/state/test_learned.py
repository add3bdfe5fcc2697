"""What a change model learned comes back exactly, whether it is told again or kept whole."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Evidence
from freshkeeper.maintenance.cache.view.dumpable import dumpable
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.cache.view.rates import ChangeBits, LastModified
from freshkeeper.maintenance.cache.view.survival import Survival
from freshkeeper.maintenance.state.change_model_state import pack, unpack
from freshkeeper.maintenance.state.evidence_log import EvidenceLog, replay
from freshkeeper.policies.base import NEVER

MODELS: dict[str, Callable[[], Any]] = {
    "bits": Learned,
    "forgetful bits": lambda: Learned(ChangeBits(memory=5)),
    "dates": lambda: Learned(LastModified()),
    "published": Published,
    "periodic": lambda: Published(periodic=True),
    "survival": lambda: Survival(own=2, capacity=8),
}
SLOTS = 6
FETCHES = st.lists(
    st.lists(st.tuples(st.integers(0, SLOTS - 1), st.booleans(), st.booleans(), st.booleans()), max_size=4), max_size=25
)


def feed(model: Any, fetches: list[list[tuple[int, bool, bool, bool]]]) -> np.ndarray:
    """Fetches at every second; tells when each slot was read last."""
    read = np.full(SLOTS, NEVER)
    model.admit(np.arange(SLOTS, dtype=np.int32), [None] * SLOTS)
    for n, fetch in enumerate(fetches):
        now, rows = 1000 + 1000 * n, {slot: row for slot, *row in fetch}
        slots = np.array(sorted(rows), np.int32)
        changed = np.array([rows[slot][0] for slot in slots.tolist()], bool) & (read[slots] != NEVER)
        modified = np.array([now - 300 if rows[slot][1] else UNKNOWN for slot in slots.tolist()], np.int64)
        expires = np.array([now + 1700 if rows[slot][2] else UNKNOWN for slot in slots.tolist()], np.int64)
        model.observe(Evidence(slots, now, read[slots], changed, modified, expires))
        read[slots] = now
        if n % 7 == 6:
            model.evict(np.array([n % SLOTS], np.int32))
            model.admit(np.array([n % SLOTS], np.int32), [None])
            read[n % SLOTS] = NEVER
    return read


@pytest.mark.parametrize("name", MODELS)
@given(FETCHES, st.integers(0, 25))
def test_a_restored_model_believes_the_same(name: str, fetches: Any, whole: int) -> None:
    recorded = EvidenceLog(MODELS[name]())
    read = feed(recorded, fetches)
    told = MODELS[name]()
    kept = MODELS[name]()
    entries = json.loads(json.dumps(recorded.entries))
    replay(told, entries)
    partly = MODELS[name]()
    replay(partly, entries[:whole])
    kept.load(unpack(pack(partly.dump())))
    replay(kept, entries[whole:])
    instants = 30_000 + 1000 * np.arange(5)
    expected = recorded.beliefs(instants, read, True)
    for model in (told, kept):
        found = model.beliefs(instants, read, True)
        assert np.array_equal(found.refreshed, expected.refreshed)
        assert np.array_equal(found.kept, expected.kept)
        assert expected.change is not None
        assert np.array_equal(found.change, expected.change)


def test_a_model_that_does_not_say_what_it_learned_is_refused() -> None:
    with pytest.raises(ConfigError, match="object cannot be kept over a restart"):
        dumpable(object())
