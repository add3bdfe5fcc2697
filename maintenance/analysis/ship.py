"""Our code for Spark's executors, as a zip: they need it wherever they run Python of ours (a wheel does not work)."""

import atexit
import gc
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from freshkeeper.maintenance.base.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALWAYS_THE_SAME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a zip, so that the same code is the same zip."""


def ship(spark: "SparkSession", names: Iterable[str]) -> None:
    """Give packages and modules to all executors of the session, those that come later included; once is enough."""
    place = tempfile.mkdtemp(prefix="freshkeeper-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)  # executors that come later are served from here
    file = packed(names, Path(place))
    if not any(shipped.endswith(file.name) for shipped in spark.sparkContext.listFiles):
        spark.sparkContext.addPyFile(str(file))


def packed(names: Iterable[str], place: Path) -> Path:
    """Return a zip of top-level packages and modules, named after its content."""
    files = {name: text for each in sorted(set(names)) for name, text in _sources(each)}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    found = place / f"freshkeeper-{digest}.zip"
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, ALWAYS_THE_SAME), text)
    return found


@cache
def settled() -> None:
    """Once in a worker: after each task Spark has all that is in memory looked at for garbage, for a tenth of a second.

    What the first task has brought, modules and compiled code for the most part, is left out from now on.
    """
    gc.collect()
    gc.freeze()


def _sources(name: str) -> Iterator[tuple[str, bytes]]:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ConfigError(f"{name!r} cannot be sent to Spark: there is no such package or module with a file")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        yield origin.name, origin.read_bytes()
        return
    folders = os.walk(origin.parent, followlinks=True)  # our own folders are links in a checkout
    for file in sorted(Path(folder, each) for folder, _, files in folders for each in files if each.endswith(".py")):
        yield str(Path(name) / file.relative_to(origin.parent)), file.read_bytes()
