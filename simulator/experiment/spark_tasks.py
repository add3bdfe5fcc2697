"""An experiment's tasks spread over Spark: each is done where there is room, and its part comes back whole.

Every (setting, seed) is one job of one Spark task, so parts arrive as they are finished, the driver holds few of them
at a time, and what a kill leaves is what it leaves without Spark. Recorded traces are broadcast; nothing is read from
disks that executors may not share. The tables are those of a local run, row for row.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from freshkeeper.maintenance.files import whole_directory
from freshkeeper.maintenance.pipeline.ship import ship
from freshkeeper.maintenance.pipeline.spark_session import first_words
from freshkeeper.policies.errors import FreshkeeperError
from freshkeeper.simulator.experiment.experiment import Job, Part, done, perform
from freshkeeper.simulator.experiment.experiment_config import settings_of
from freshkeeper.simulator.trace.trace import Trace, read_trace

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

Files = dict[str, bytes]


@dataclass(frozen=True)
class OnSpark:
    """Does tasks on a session, as many at once as it has cores."""

    spark: "SparkSession"

    def __call__(self, todo: list[Job]) -> Iterator[Part]:
        """The parts, in the order in which they are finished; those that an earlier run left come first."""
        yield from map(perform, filter(done, todo))
        waiting = [job for job in todo if not done(job)]
        if not waiting:
            return
        context = self.spark.sparkContext
        experiments = [setting.experiment for setting in settings_of(waiting[0].experiment)]
        named = {policy.name for each in experiments for policy in each.policies if ":" in policy.name}
        ship(self.spark, ["freshkeeper", *{re.split("[.:]", name)[0] for name in named}])  # policies as module:Class
        traces = context.broadcast(
            {path: read_trace(path) for path in {e.trace for e in experiments} if path is not None}
        )
        group = str(uuid4())
        pool = ThreadPoolExecutor(min(context.defaultParallelism, len(waiting)))
        try:
            for future in as_completed([pool.submit(self._done, job, traces, group) for job in waiting]):
                yield future.result()
        finally:
            context.cancelJobGroup(group)
            pool.shutdown(cancel_futures=True)
            traces.destroy()

    def _done(self, job: Job, traces: "Broadcast[dict[Path, Trace]]", group: str) -> Part:
        """One task, done by some executor; its part lies where it would lie without Spark."""
        context = self.spark.sparkContext
        context.setJobGroup(group, f"setting {job.index}, seed {job.seed}", interruptOnCancel=True)
        try:
            (answer,) = context.parallelize([job], 1).map(partial(_answer, traces=traces)).collect()
        except (PySparkException, Py4JError) as error:
            raise FreshkeeperError(f"a task failed on Spark: {first_words(error)}; what is finished is kept") from error
        if isinstance(answer, FreshkeeperError):
            raise answer
        _put(job.place, answer)
        return perform(job)


def _answer(job: Job, traces: "Broadcast[dict[Path, Trace]]") -> Files | FreshkeeperError:
    """On an executor: do the task; the files of its part, or what a person has to be told."""
    known: Mapping[Path, Trace] = traces.value
    with tempfile.TemporaryDirectory() as place:
        here = Path(place) / "part"
        try:
            perform(replace(job, place=here), known.__getitem__)
        except FreshkeeperError as error:
            return error
        return {file.name: file.read_bytes() for file in here.iterdir()}


def _put(place: Path, files: Files) -> None:
    """A kill leaves a whole part or none."""
    with whole_directory(place) as unfinished:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)
