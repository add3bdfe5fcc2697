"""A standalone Spark cluster: a master and workers, each a process of its own, on loopback; and the jobs done on it.

python spark_cluster.py LIFE PLACE MASTER CLUSTER    one of two drivers:

    first     kills itself in the middle of simulating and of enriching
    second    ends both, analyses, enriches and runs a notebook, a worker killed in the middle of each
"""

import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import enriched
import pyspark
from own_policies import ApartGain
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from quick_java import QUICK

from freshkeeper.maintenance.analysis import judging
from freshkeeper.maintenance.analysis.analysis import analyse
from freshkeeper.maintenance.analysis.spark_engine import Spark
from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.spark.enrich import OnCluster
from freshkeeper.simulator.experiment.experiment import Progress, simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.run_parts import RunPart
from freshkeeper.simulator.experiment.spark_tasks import SparkRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = "127.0.0.1"
START, PATIENCE = Path(pyspark.__file__).parent / "bin" / "spark-class", 60
SETTINGS = enriched.SETTINGS | {
    "spark.driver.host": HOST, "spark.driver.bindAddress": HOST, "spark.driver.memory": "512m",
    "spark.executor.memory": "480m", "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": "8", "spark.ui.liveUpdate.period": "0",
}  # fmt: skip
EXPERIMENT = {
    "workload": {"sns": 12, "srs": 10, "edges": 40}, "policies": "random,gain", "sweep": {"budget": [2, 3]},
    "evaluations": 12, "seeds": 6, "answers": True, "bound": "never",
}  # fmt: skip
POLICY = ApartGain(expect=False, windows=1)
KEPT = 2
"""Runs of a simulation that are finished before the driver is killed."""
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03-spark-enrichment.py"


@dataclass(frozen=True)
class Cluster:
    """`place` has a log and a file named after its pid for every process, so whoever started it, all can be ended."""

    place: Path
    master: str = ""
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """those of this process"""

    @classmethod
    def started(cls, place: Path) -> "Cluster":
        """A master and two workers that it knows."""
        with socket.socket() as free:
            free.bind((HOST, 0))
            port = free.getsockname()[1]
        cluster = cls(place, f"spark://{HOST}:{port}")
        cluster._run("master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
        cluster.worker()
        cluster.worker()
        return cluster

    def worker(self) -> int:
        """One more, of one core; its pid, when the master knows it."""
        before = self._log("master").count("Registering worker")
        wanted = ("--host", HOST, "--cores", "1", "--memory", "480m", "--work-dir", str(self.place / "work"))
        pid = self._run("worker.Worker", *wanted, self.master)
        until = time.monotonic() + PATIENCE
        while self._log("master").count("Registering worker") == before:
            assert time.monotonic() < until, f"no worker after {PATIENCE} s: {self._log('worker')}"
            time.sleep(0.05)
        return pid

    def workers(self) -> list[int]:
        """The pids of those that live."""
        return [int(path.suffix[1:]) for path in sorted(self.place.glob("worker.*")) if _lives(path)]

    def stop(self) -> None:
        """End them all."""
        for path in self.place.glob("[mw]*.[0-9]*"):
            if _lives(path):
                os.kill(int(path.suffix[1:]), signal.SIGKILL)
        for child in self.children:
            child.wait()

    def _run(self, name: str, *words: str) -> int:
        kind = name.partition(".")[0]
        more = {"SPARK_DAEMON_MEMORY": "192m", "SPARK_DAEMON_JAVA_OPTS": QUICK}
        with (self.place / f"{kind}.log").open("ab") as log:
            command = [str(START), f"org.apache.spark.deploy.{name}", *words]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | more, start_new_session=True)
        self.children.append(process)
        (self.place / f"{kind}.{process.pid}").touch()
        return process.pid

    def _log(self, kind: str) -> str:
        path = self.place / f"{kind}.log"
        return path.read_text() if path.exists() else ""


def _lives(path: Path) -> bool:
    """Whether the process is there, and still one of Spark's."""
    try:
        return b"org.apache.spark.deploy" in Path(f"/proc/{path.suffix[1:]}/cmdline").read_bytes()
    except OSError:
        return False


class Killer:
    """Kills a worker once, and starts another in its place."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.left = cluster, 1

    def __call__(self, *_: object) -> None:
        if self.left:
            self.left = 0
            os.kill(self.cluster.workers()[0], signal.SIGKILL)
            self.cluster.worker()

    def when_busy(self, spark: SparkSession) -> threading.Thread:
        """As soon as a stage has a task that is not done."""

        def wait() -> None:
            tracker = spark.sparkContext.statusTracker()
            while self.left:
                infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                if any(info and info.numCompletedTasks < info.numTasks for info in infos):
                    self()
                time.sleep(0.005)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread


def first(place: Path, cluster: Cluster) -> None:
    """Kills itself while it simulates, and in the middle of that enriches."""
    spark = spark_session(cluster.master, SETTINGS)

    def end(_part: RunPart, done: int, _of: int) -> None:
        if done > KEPT:
            enrich_windows(place / "killed", spark, enriched.kill_at("recorded", 3))

    sweep(place, spark, end)


def second(place: Path, cluster: Cluster) -> None:
    """Ends both, then all four, with a worker killed in the middle of each."""
    spark = spark_session(cluster.master, SETTINGS)
    enrich_windows(place / "killed", spark, lambda _: None)
    before = {part: part.stat().st_mtime_ns for part in place.glob("run/parts/*.arrow")}
    assert len(before) >= KEPT

    def checked(part: RunPart, done: int, of: int) -> None:
        if done > len(before):
            killer(part, done, of)
        if done == of:
            assert before.items() <= {each: each.stat().st_mtime_ns for each in before}.items(), "done again"

    killer = Killer(cluster)
    sweep(place, spark, checked)
    assert not killer.left
    judging.SLICE = 500
    killer = Killer(cluster)
    thread = killer.when_busy(spark)
    analyse(Spark(spark), str(place / "run"), str(place / "told"))
    assert not killer.left, "the analysis was over before a worker was killed"
    thread.join()
    killer = Killer(cluster)
    enrich_windows(place, spark, lambda step: killer() if step == "recorded" else None)
    assert not killer.left
    killer = Killer(cluster)
    spark.streams.addListener(InStream(killer))
    with (place / "said").open("w") as said, redirect_stdout(said):
        runpy.run_path(str(NOTEBOOK))
    assert not killer.left


class InStream(StreamingQueryListener):
    """Kills after the first micro-batch, while those that follow go on."""

    def __init__(self, killer: Killer) -> None:
        self._killer = killer

    def onQueryStarted(self, event: object) -> None:  # noqa: N802
        """Nothing is done yet."""

    def onQueryProgress(self, event: object) -> None:  # noqa: N802
        """A micro-batch is."""
        self._killer(event)

    def onQueryTerminated(self, event: object) -> None:  # noqa: N802
        """All are."""


def sweep(place: Path, spark: SparkSession, progress: Progress) -> None:
    """A simulation, from where it was."""
    simulate(resolve(EXPERIMENT), place / "run", resume=True, performed=SparkRuns(spark, task_s=0.0), progress=progress)


def enrich_windows(place: Path, spark: SparkSession, reached: Callable[[str], None]) -> None:
    """Scored on the cluster, answers as files."""
    graph = OnCluster(str(place / "window"))
    enriched.finish(enriched.query(spark, place, policy=POLICY, graph=graph, reached=reached))


if __name__ == "__main__":
    life, here, master, processes = sys.argv[1:]
    {"first": first, "second": second}[life](Path(here), Cluster(Path(processes), master))
