"""The analysis on Spark, where data outgrow one machine or lie on a cluster's file system."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from freshkeeper.maintenance.pipeline.analysis.engine import Row, UnreadableError


class Spark:
    """Tables of their own in a session that others may use too."""

    name = "spark"
    failures: tuple[type[Exception], ...] = (PySparkException, Py4JError)

    def __init__(self, session: SparkSession) -> None:
        """The settings are the session's, its tables are not touched."""
        self._session = session.newSession()
        for key, value in session.conf.getAll.items():
            if session.conf.isModifiable(key):
                self._session.conf.set(key, value)
        self._kept = ExitStack()

    def parquet(self, name: str, path: str) -> list[str]:
        """A file that is no Parquet is found out first: Spark would log pages about it."""
        try:
            if Path(path).is_file():
                parquet.ParquetFile(path)
            table = self._session.read.parquet(path)
        except (OSError, ValueError) as error:
            raise UnreadableError(path) from error
        except (PySparkException, Py4JError) as error:
            if isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND":
                return []
            raise UnreadableError(path) from error
        table.createOrReplaceTempView(name)
        return table.columns

    def given(self, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]]) -> None:
        """A view of rows that go with every plan."""
        schema = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        self._session.createDataFrame([tuple(row) for row in rows], schema).createOrReplaceTempView(name)

    def view(self, name: str, query: str) -> None:
        """A temporary view."""
        self._session.sql(_quoted(query)).createOrReplaceTempView(name)

    def keep(self, name: str, query: str, order: str = "", large: bool = False) -> None:
        """Persisted, in memory unless it is large; put in order without the sampling that `ORDER BY` does first."""
        table = self._session.sql(_quoted(query))
        if order:
            table = table.coalesce(1).sortWithinPartitions(*(word.strip(' "') for word in order.split(",")))
        self._kept.callback(table.unpersist)
        table.persist(StorageLevel.DISK_ONLY if large else StorageLevel.MEMORY_AND_DISK_DESER)
        table.createOrReplaceTempView(name)

    def rows(self, query: str) -> list[Row]:
        """As dictionaries."""
        return [row.asDict() for row in self._session.sql(_quoted(query)).collect()]

    def write(self, name: str, path: str) -> None:
        """As many parts as there are tasks."""
        self._session.table(name).write.mode("overwrite").parquet(path)

    def read_text(self, path: str) -> str | None:
        """From wherever Spark can read."""
        try:
            return str(self._session.read.text(path, wholetext=True).collect()[0]["value"])
        except (PySparkException, Py4JError, LookupError):
            return None

    def write_text(self, path: str, text: str) -> None:
        """One file, but on another file system a directory with one in it."""
        if "://" in path:
            self._session.createDataFrame([(text,)], "value string").coalesce(1).write.mode("overwrite").text(path)
        else:
            Path(path).write_text(text, "utf-8")

    def close(self) -> None:
        """Unpersist what was kept; the session goes on."""
        self._kept.close()


def _quoted(query: str) -> str:
    """Spark writes names in backticks."""
    return query.replace('"', "`")
