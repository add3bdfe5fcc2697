"""Tables of a run directory that must be there."""

from pathlib import Path

import pyarrow as pa

from freshkeeper.maintenance.journal import journal


def table_of(place: Path, name: str) -> pa.Table:
    """One table of a run directory or a journal."""
    found = journal.read(place, name)
    assert found is not None, f"{place} has no table {name}"
    return found
