"""The answers of a service as a Spark stream: a row per answer of one of its queries, over HTTP.

    answers_of(spark, "http://127.0.0.1:8642", "reach")

Offsets are instants of evaluations, which a service's answers are numbered by, so a stream goes on where it stopped.
A service keeps the last 64 to 128 MB of each query; where an instant is gone the query fails, and nothing is left out
without a word.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from freshkeeper.maintenance.analysis.ship import ship
from freshkeeper.maintenance.base.errors import EndpointError, InputError
from freshkeeper.maintenance.fetching.http.exchange import MAX_ERROR, Call, ConnectionPool, HttpStream
from freshkeeper.maintenance.fetching.requests import Deadline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = pa.schema({"t_ms": pa.int64(), "event_time": pa.timestamp("us", "UTC"), "answer": pa.string()})
"""`answer` is the JSON that the service writes: bindings, and how likely it is fresh."""
BEFORE_ALL = -(1 << 62)
TIMEOUT_S = 60
Offset = dict[str, int]


def answers_of(spark: "SparkSession", address: str, query: str, token: str = "") -> "DataFrame":
    """Return a stream of the answers that a service still has, followed by new ones."""
    ship(spark, ["freshkeeper"])
    spark.dataSource.register(ServiceAnswers)
    asked = spark.readStream.format(ServiceAnswers.name()).option("query", query).option("token", token)
    return asked.load(address)


class ServiceAnswers(DataSource):
    """The data source `freshkeeper-answers`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `spark.readStream.format` takes."""
        return "freshkeeper-answers"

    def schema(self) -> StructType:
        """Return the columns of an answer."""
        return from_arrow_schema(ROWS)

    def streamReader(self, schema: StructType) -> "Reader":  # noqa: N802
        """Return a reader of the answers that are there and of new ones."""
        del schema
        return Reader(self.options["path"].rstrip("/"), self.options["query"], self.options.get("token", ""))


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the answers of one query, from an offset on."""

    def __init__(self, address: str, query: str, token: str) -> None:
        self._address, self._query, self._token = address, query, token
        self._until: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Begin before the oldest answer."""
        return {"t": BEFORE_ALL}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop at the answers that are there now."""
        self._until = self._answered(self.initialOffset())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the last evaluation that the service has answered."""
        del limit
        return self._until or self._answered(start)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition, as answers have an order: those after one instant, up to and with another."""
        return [InputPartition((start["t"], end["t"]))] if end["t"] > start["t"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a batch per evaluation; the last evaluation read before must still be there."""
        after, until = partition.value
        known = after > BEFORE_ALL
        for line in self._lines(after - known, until):
            at = line["t"]
            if known and at > after:
                raise InputError(f"the answers of {self._query} after {after} ms are gone: next is {at}")
            if not known:
                texts = [json.dumps(answer, ensure_ascii=False) for answer in line["answers"]]
                rows = {"t_ms": [at] * len(texts), "event_time": [1000 * at] * len(texts), "answer": texts}
                yield from pa.table(rows, schema=ROWS).to_batches()
            known = False

    def _open(self, rest: str = "") -> HttpStream:
        """Request something of the query. Raise InputError if the service is away or refuses."""
        url = f"{self._address}/queries/{quote(self._query, safe='')}{rest}"
        headers = {"User-Agent": "freshkeeper"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        pool = ConnectionPool()
        try:
            response = pool.stream(Call("GET", url, headers), Deadline(pool.clock() + TIMEOUT_S))
            if response.status != 200:
                said = response.read1(MAX_ERROR, TIMEOUT_S).decode(errors="replace")[:300]
                response.close()
                raise InputError(f"{url} answered {response.status}: {said}")
        except EndpointError as error:
            raise InputError(f"{url} cannot be read: {error}") from None
        return response

    def _answered(self, start: Offset) -> Offset:
        with closing(self._open()) as response:
            found = json.loads(b"".join(self._lines_of(response)))["answered"]
        return start if found is None else {"t": found}

    def _lines(self, after: int, until: int) -> Iterator[dict[str, Any]]:
        """Return the line of every evaluation up to the last that is wanted, which is there."""
        with closing(self._open(f"/answers?after={after}")) as response:
            for text in filter(bytes.strip, self._lines_of(response)):
                line = json.loads(text)
                yield line
                if line["t"] >= until:
                    return
        raise InputError(f"{self._address} ended before {self._query} came to {until} ms")

    def _lines_of(self, response: HttpStream) -> Iterator[bytes]:
        try:
            yield from response.lines(TIMEOUT_S)
        except EndpointError as error:
            raise InputError(f"{self._address} broke off: {error}") from None
