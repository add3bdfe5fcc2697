"""Which cached entries of a state are believed to change by a clock, read from its directory without a run."""

import json
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.regular import Regular, regular_entries
from freshkeeper.maintenance.state import change_model_state as learned
from freshkeeper.maintenance.state.database import FILE, Database
from freshkeeper.maintenance.state.evidence_log import tell
from freshkeeper.maintenance.state.term_text import decode


def learned_clocks(directory: Path, sources: Collection[str]) -> dict[str, list[Regular]]:
    """Of each of these sources, whose changes are learned, the regular entries, the surest first.

    A state that a run holds open is an error, as it is for another run.
    """
    if not (directory / FILE).exists():
        return {}
    with closing(Database(directory)) as base:
        views = [view for view in base.read("SELECT view, name FROM views ORDER BY view") if view[1] in sources]
        found: dict[str, list[Regular]] = {name: [] for _, name in views}
        for number, name in views:
            found[name] += _of_view(base, number)
    return {name: sorted(entries, key=lambda entry: -entry.chance) for name, entries in found.items()}


def _of_view(base: Database, number: int) -> list[Regular]:
    """Its model is told what the run's was told, as on a restart."""
    model, entries = Learned(), []
    for whole, body in base.read("SELECT whole, body FROM learned WHERE view = ? ORDER BY seq", number):
        if whole:
            model.load(learned.unpacked(body))
        else:
            entries += json.loads(body)
    tell(model, entries)
    keys = decode(key or "null" for (key,) in base.read("SELECT key FROM srs WHERE view = ? ORDER BY slot", number))
    return regular_entries(model, keys)
