"""The cached entries of a state that change by a clock as far as is known, read from its directory without a run."""

import json
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from freshkeeper.maintenance.base.term_text import decode
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.regular import Regular, regular_entries
from freshkeeper.maintenance.state import change_model_state as learned
from freshkeeper.maintenance.state.database import FILE, Database
from freshkeeper.maintenance.state.evidence_log import replay


def learned_clocks(directory: Path, sources: Collection[str]) -> dict[str, list[Regular]]:
    """Return the regular entries of each source whose changes are learned, the most certain first.

    Raises ConfigError if a run has the state open.
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
    """Restore the model of a view as a restart does, and return its regular entries."""
    model, entries = Learned(), []
    for whole, body in base.read("SELECT whole, body FROM learned WHERE view = ? ORDER BY seq", number):
        if whole:
            model.load(learned.unpack(body))
        else:
            entries += json.loads(body)
    replay(model, entries)
    keys = decode(key or "null" for (key,) in base.read("SELECT key FROM srs WHERE view = ? ORDER BY slot", number))
    return regular_entries(model, keys)
