"""Files where Spark runs: on whatever file system Hadoop knows, hdfs://, s3a:// and file:// among them.

PySpark has no public way to copy, move or remove a file there: its readers and writers know tables alone. So this file,
and no other one, takes the JVM that a session keeps for itself; a test holds it to that, and to what it does.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ClusterFiles:
    """The files that a session can reach."""

    def __init__(self, session: "SparkSession") -> None:
        """Use the Hadoop configuration of the session, and so its credentials."""
        context = session.sparkContext
        assert context._jvm is not None, f"{context.appName} has no JVM of its own: its driver is elsewhere"
        self._hadoop, self._configuration = context._jvm.org.apache.hadoop.fs, context._jsc.hadoopConfiguration()

    def fetch(self, path: str, here: Path) -> None:
        """Copy a file or a directory to this machine; nothing where there is none."""
        system, there = self._place(path)
        if system.exists(there):
            system.copyToLocalFile(False, there, self._hadoop.Path(here.as_uri()), True)

    def put(self, here: Path, path: str) -> None:
        """Copy a directory there, in the place of what was there."""
        self.remove(path)
        system, there = self._place(path)
        system.copyFromLocalFile(False, True, self._hadoop.Path(here.as_uri()), there)

    def remove(self, path: str) -> None:
        """Copy a file, or a directory with everything in it; do nothing if there is none."""
        system, there = self._place(path)
        system.delete(there, True)

    def _place(self, path: str) -> tuple[Any, Any]:
        there = self._hadoop.Path(path)
        return there.getFileSystem(self._configuration), there
