"""Keeping the journal of an earlier run when another run writes into its directory."""

from pathlib import Path

from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.journal.journal import SCHEMAS
from freshkeeper.maintenance.journal.run_json import FILE

EARLIER = "earlier"
"""The directory for journals of earlier runs, in that of the journal."""


def keep_earlier(directory: Path) -> None:
    """Move the journal of an earlier run to `earlier/1`, or the next number that is free."""
    existing = [path for name in SCHEMAS if (path := directory / f"{name}.parquet").exists()]
    if not existing:
        return
    numbers = [int(path.name) for path in (directory / EARLIER).glob("*") if path.name.isdigit()]
    place = directory / EARLIER / str(max(numbers, default=0) + 1)
    if (directory / FILE).exists():
        existing.append(directory / FILE)
    with writing(place):
        place.mkdir(parents=True)
        for path in existing:
            path.rename(place / path.name)
