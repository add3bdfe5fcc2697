"""An experiment's runs spread over Spark: each is done where there is room, and its part comes back whole.

A Spark task does runs for about a second, as scheduling one costs some hundredths of it, and hands back what it did
not come to. So parts arrive while others are being done, the driver holds few of them at a time, and what a kill
leaves is what it leaves without Spark. Recorded traces are broadcast; nothing is read from disks that executors may
not share. The tables are those of a local run, row for row.
"""

import re
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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
from freshkeeper.simulator.experiment.run_parts import Job, Part, done, perform, read_part
from freshkeeper.simulator.trace.trace import Trace, read_trace

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

Files = dict[str, bytes]
MOST_RUNS = 400
"""So many are sent to one task; each is some kilobytes."""


@dataclass(frozen=True)
class OnSpark:
    """Does runs on a session, in as many tasks at once as it has cores."""

    spark: "SparkSession"
    task_s: float = 1.0
    """how long a task goes on beginning runs"""

    def __call__(self, todo: list[Job]) -> Iterator[Part]:
        """The parts, in the order in which they are finished; those that an earlier run left come first."""
        yield from map(read_part, filter(done, todo))
        waiting = deque(job for job in todo if not done(job))
        if not waiting:
            return
        context = self.spark.sparkContext
        self._ship(waiting)
        traces = context.broadcast(
            {path: read_trace(path) for path in {job.setting.experiment.trace for job in waiting} if path is not None}
        )
        group, most = str(uuid4()), 2 * context.defaultParallelism  # a core that is done has its next task there
        pool = ThreadPoolExecutor(most)
        running: set[Future[tuple[list[Job], list[Job]]]] = set()
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    running.add(pool.submit(self._done, _next(waiting, most), traces, group))
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    left = future.result()[1]
                    waiting.extendleft(reversed(left))
                yield from (read_part(job) for future in finished for job in future.result()[0])
        finally:
            context.cancelJobGroup(group)
            pool.shutdown(cancel_futures=True)
            traces.destroy()

    def _ship(self, waiting: deque[Job]) -> None:
        """Our code, and that of policies that are written as module:Class."""
        policies = {policy.name for job in waiting for policy in job.setting.experiment.policies}
        ship(self.spark, ["freshkeeper", *{re.split("[.:]", name)[0] for name in policies if ":" in name}])

    def _done(self, jobs: list[Job], traces: "Broadcast[dict[Path, Trace]]", group: str) -> tuple[list[Job], list[Job]]:
        """What one task on some executor did, and what it left; parts lie where they would lie without Spark."""
        context, first = self.spark.sparkContext, jobs[0]
        context.setJobGroup(group, f"from setting {first.index}, seed {first.seed} on", interruptOnCancel=True)
        try:
            (answer,) = (
                context.parallelize([jobs], 1).map(partial(_answer, traces=traces, seconds=self.task_s)).collect()
            )
        except (PySparkException, Py4JError) as error:
            raise FreshkeeperError(f"a task failed on Spark: {first_words(error)}; what is finished is kept") from error
        if isinstance(answer, FreshkeeperError):
            raise answer
        for job, files in zip(jobs, answer, strict=False):
            _put(job.place, files)
        return jobs[: len(answer)], jobs[len(answer) :]


def _next(waiting: deque[Job], tasks: int) -> list[Job]:
    """What one task is sent: no more than leaves something for all others, up to the end."""
    many = min(MOST_RUNS, len(waiting) // tasks + 1)
    return [waiting.popleft() for _ in range(many)]


def _answer(jobs: list[Job], traces: "Broadcast[dict[Path, Trace]]", seconds: float) -> list[Files] | FreshkeeperError:
    """On an executor: the files of the first runs, at least one; or what a person has to be told."""
    found: list[Files] = []
    until = time.monotonic() + seconds
    for job in jobs:
        try:
            found.append(_files(job, traces.value))
        except FreshkeeperError as error:
            return found or error
        except Exception:
            if not found:
                raise
            return found  # this one comes again as the first of a task, and is told then
        if time.monotonic() > until:
            break
    return found


def _files(job: Job, known: Mapping[Path, Trace]) -> Files:
    with tempfile.TemporaryDirectory() as place:
        here = Path(place) / "part"
        perform(replace(job, place=here), known.__getitem__)
        return {file.name: file.read_bytes() for file in here.iterdir()}


def _put(place: Path, files: Files) -> None:
    """A kill leaves a whole part or none."""
    with whole_directory(place) as unfinished:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)
