"""Runs of an experiment on Spark: each runs where a core is free, and returns its part as a file.

A Spark task does runs for two seconds, as scheduling one costs some hundredths of a second, and hands back what it did
not come to; what it did is one file of parts. So parts arrive while others are being done, the driver holds few of them
at a time, and what a kill leaves is what it leaves without Spark. Recorded traces are broadcast; nothing is read from
disks that executors may not share. The tables are those of a local run, row for row.
"""

import re
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from freshkeeper.maintenance.analysis.ship import settled, ship
from freshkeeper.maintenance.analysis.spark_session import first_words
from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.simulator.experiment.run_parts import Job, PartRow, RunPart, content, perform_row, write_parts
from freshkeeper.simulator.trace.trace import Trace, read_trace

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

MOST_RUNS = 400
"""The most runs sent to one task; each takes some kilobytes."""
LAST_TASK_SHARE = 0.15
"""The share of a task's time for which the last tasks get runs, rather than one run each."""


@dataclass(frozen=True)
class SparkRuns:
    """Does runs on a Spark session, in as many tasks at once as it has cores."""

    spark: "SparkSession"
    task_s: float = 2.0
    """seconds during which a task begins new runs"""

    def __call__(self, todo: list[Job]) -> Iterator[RunPart]:
        """Yield the parts in the order in which they finish."""
        waiting = deque(todo)
        if not waiting:
            return
        context = self.spark.sparkContext
        self._ship(waiting)
        paths = {job.setting.experiment.trace for job in waiting}
        traces = context.broadcast({path: read_trace(path) for path in paths if path is not None})
        group, most = str(uuid4()), 2 * context.defaultParallelism  # a core that is done has its next task there
        pool = ThreadPoolExecutor(most)
        running: set[Future[tuple[list[RunPart], list[Job], float]]] = set()
        least = 1
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    running.add(pool.submit(self._run_task, _next(waiting, most, least), traces, group))
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    parts, left, seconds = future.result()
                    waiting.extendleft(reversed(left))
                    least = int(LAST_TASK_SHARE * self.task_s * len(parts) / seconds)
                yield from (part for future in finished for part in future.result()[0])
        finally:
            context.cancelJobGroup(group)
            pool.shutdown(cancel_futures=True)
            traces.destroy()

    def _ship(self, waiting: deque[Job]) -> None:
        """Ship freshkeeper and the modules of policies given as module:Class."""
        policies = {policy.name for job in waiting for policy in job.setting.experiment.policies}
        ship(self.spark, ["freshkeeper", *{re.split("[.:]", name)[0] for name in policies if ":" in name}])

    def _run_task(
        self, jobs: list[Job], traces: "Broadcast[dict[Path, Trace]]", group: str
    ) -> tuple[list[RunPart], list[Job], float]:
        """Run one task; return its parts, the jobs it left, and the seconds it took."""
        context, first = self.spark.sparkContext, jobs[0]
        context.setJobGroup(group, f"from {first.setting.name}, seed {first.seed} on", interruptOnCancel=True)
        try:
            (answer,) = (
                context.parallelize([jobs], 1).map(partial(_answer, traces=traces, seconds=self.task_s)).collect()
            )
        except (PySparkException, Py4JError) as error:
            raise FreshkeeperError(f"a task failed on Spark: {first_words(error)}; what is finished is kept") from error
        if isinstance(answer, FreshkeeperError):
            raise answer
        parts = write_parts(first.place, answer[0])
        return parts, jobs[len(parts) :], answer[1]


def _next(waiting: deque[Job], tasks: int, least: int) -> list[Job]:
    """Take the jobs of the next task, few enough to leave some for all other tasks."""
    many = min(MOST_RUNS, len(waiting), max(least, len(waiting) // tasks + 1))
    return [waiting.popleft() for _ in range(many)]


def _answer(
    jobs: list[Job], traces: "Broadcast[dict[Path, Trace]]", seconds: float
) -> tuple[bytes, float] | FreshkeeperError:
    """Do jobs on an executor for `seconds`; return the file of their parts and the time, or an error to report."""
    found: list[PartRow] = []
    began = time.monotonic()
    for job in jobs:
        try:
            found.append(perform_row(job, traces.value.__getitem__))
        except FreshkeeperError as error:
            if not found:
                return error
            break
        except Exception:
            if not found:
                raise
            break  # this one comes again as the first of a task, and is told then
        if time.monotonic() > began + seconds:
            break
    settled()
    return content(found), time.monotonic() - began
