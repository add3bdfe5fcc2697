"""The driver's part of a view whose tables lie on the cluster: what was ever asked for again, and what that taught."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from freshkeeper.maintenance.service.endpoint import Copy
from freshkeeper.maintenance.view.changes import ChangeModel, Evidence
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.maintenance.view.slots import Slots
from freshkeeper.policies.arrays import Bools, Floats


@dataclass(eq=False)
class Touched:
    """Copies by slot, in the order in which their SRs were first asked for."""

    model: ChangeModel
    key: pa.DataType
    value: pa.DataType
    slots: Slots = field(default_factory=Slots)
    values: list[object] = field(default_factory=list)
    refreshed: list[int] = field(default_factory=list)
    usual_rate: float = 0.0
    """the change rate that is believed of what was never asked for"""
    rates: Floats = field(default_factory=lambda: np.empty(0))

    def believe(self) -> None:
        """An evaluation begins: what it says of freshness is what was known before its own refreshes."""
        if isinstance(self.model, Learned):
            *rates, self.usual_rate = self.model.rates(self.slots.width + 1).tolist()
            self.rates = np.array(rates, np.float64)

    def admit(self, keys: Sequence[Hashable], values: Sequence[object], refreshed: Sequence[int]) -> None:
        """These will be asked for; those that are new here bring the copy that the warm start had."""
        for key, value, at in zip(keys, values, refreshed, strict=True):
            slot, new = self.slots.take(key)
            if new:
                self.values.append(value)
                self.refreshed.append(at)
                self.model.admit(np.array([slot], np.int32), [key])

    def store(self, keys: Sequence[Hashable], copies: Sequence[Copy], read_at: int) -> Bools:
        """What was fetched; tells which values had changed. A copy older than the one held is let go."""
        changed = np.zeros(len(keys), bool)
        good = [
            n for n, (key, copy) in enumerate(zip(keys, copies, strict=True))
            if copy.error is None and self.refreshed[self.slots.numbers[key]] <= read_at
        ]  # fmt: skip
        slots = [self.slots.numbers[keys[n]] for n in good]
        previous = np.array([self.refreshed[slot] for slot in slots], np.int64)
        changed[good] = [self.values[slot] != copies[n].value for n, slot in zip(good, slots, strict=True)]
        for n, slot in zip(good, slots, strict=True):
            self.values[slot], self.refreshed[slot] = copies[n].value, read_at
        told = [(copies[n].modified, copies[n].expires) for n in good]
        modified, expires = (np.array([pair[side] for pair in told], np.int64) for side in (0, 1))
        seen = np.array(slots, np.int32)
        self.model.observe(Evidence(seen, read_at, previous, changed[good], modified, expires))
        return changed

    def table(self) -> pa.Table:
        """sr, new_value, new_refreshed_ms, new_rate."""
        rates = np.full(self.slots.width, self.usual_rate)
        rates[: self.rates.size] = self.rates
        columns = {
            "sr": pa.array(self.slots.keys, self.key),
            "new_value": pa.array(self.values, self.value),
            "new_refreshed_ms": pa.array(self.refreshed, pa.int64()),
            "new_rate": pa.array(rates, pa.float64()),
        }
        schema = pa.schema([(name, column.type) for name, column in columns.items()])
        return pa.Table.from_arrays(list(columns.values()), schema=schema)

    def nothing(self) -> pa.Table:
        """No candidates, with the columns that they would have."""
        kinds = {"sr": self.key, "value": self.value, "refreshed_ms": pa.int64()}
        return pa.schema(kinds | dict.fromkeys(("w0", "kept", "score", "tie"), pa.float64())).empty_table()
