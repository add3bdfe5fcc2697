"""What becomes of a journal when another run writes into its directory: nothing is lost."""

from pathlib import Path

from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.journal.journal import SCHEMAS
from freshkeeper.maintenance.journal.run_json import FILE

EARLIER = "earlier"
"""The directory, in that of a journal, with those of the runs before."""


def keep_earlier(directory: Path) -> None:
    """Make room for another run: the journal that is there goes to `earlier/1`, or the next number that is free."""
    there = [path for name in SCHEMAS if (path := directory / f"{name}.parquet").exists()]
    if not there:
        return
    taken = [int(path.name) for path in (directory / EARLIER).glob("*") if path.name.isdigit()]
    place, about = directory / EARLIER / str(max(taken, default=0) + 1), directory / FILE
    with writing(place):
        place.mkdir(parents=True)
        for path in [*there, *([about] if about.exists() else [])]:
            path.rename(place / path.name)
