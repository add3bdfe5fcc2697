"""Java for sessions of Spark that live for seconds: no optimising, and classes as they were in memory once.

python quick_java.py    archives the classes that a small enrichment loads, beside this Python; `make test` does it once
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""Half of what starting a session costs is reading and checking classes: Java maps this file in the place of that."""
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK = f"{OPTIONS} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else OPTIONS
"""In SPARK_SUBMIT_OPTS, for what tests, commands and documents start: two fifths of what Java takes else."""


def archive() -> None:
    """Whole or not at all, when Java has ended: it writes the file then, and has what we wait for open until then."""
    import enriched

    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as name:
        place = Path(name)
        enriched.drop(place, 2)
        written = place / ARCHIVE.name
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"{OPTIONS} -XX:ArchiveClassesAtExit={written}"}
        command = [sys.executable, enriched.__file__, "spark", str(place), "", "0"]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        written.rename(ARCHIVE)


if __name__ == "__main__":
    archive()
