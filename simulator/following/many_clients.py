"""The cost of many clients for a server and for themselves.

The server runs in a process of its own, the clients are threads of this one.

The processor time of the server is what it says of itself when it ends, that of the clients what this process took.
Clients begin together and are all asked to go on at each expiry, as in paper 004, so that they come all at once.
"""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread

from pyoxigraph import RdfFormat, serialize

from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource
from freshkeeper.maintenance.annotated.following import FollowedQuery
from freshkeeper.maintenance.base.errors import EndpointError, InputError
from freshkeeper.maintenance.fetching.http.exchange import ConnectionPool
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationStyle
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.simulator.following.following_config import FollowingExperiment
from freshkeeper.simulator.trace.trains import DEPARTURES, trains

LOOPBACK_HOST = "127.0.0.1"
SAMPLE_INTERVAL_S = 0.5
"""Seconds between two samples of the clients' processor time."""
SERVER_SUMMARY = re.compile(
    r"([\d,]+) requests, ([\d,]+) pages made, ([\d,]+) bytes sent, ([\d.]+) s of processor time"
)


@dataclass(frozen=True)
class ServerCounters:
    """The counters that a server prints when it ends."""

    requests: int
    pages: int
    sent: int
    seconds: float


@dataclass(frozen=True)
class Load:
    """The cost of a number of clients."""

    clients: int
    cached: bool
    seconds: float
    server_percent: float
    """of a core"""
    client_percent: float
    """of a core, each of them"""
    requests: int
    pages: int
    """that were made; the others were held"""
    kilobytes_each: float
    """per second, as they go over the wire"""
    answers: int
    late: int
    """answers that had expired when they were there, and were not delivered"""
    failed: int


@dataclass(frozen=True)
class Sample:
    """The mean share of a core that one client took in the half second that ends here."""

    clients: int
    cached: bool
    second: float
    percent: float


@dataclass(eq=False)
class Crowd:
    """The counters that all clients share."""

    over: Event = field(default_factory=Event)
    answers: int = 0
    late: int = 0
    failed: int = 0
    lock: Lock = field(default_factory=Lock)

    def follow(self, address: str, cached: bool) -> None:
        """Run one client until the experiment is over."""
        client = FragmentsOverHttp(address, pool=ConnectionPool(proxies={}), cached=cached)
        query = AnnotatedQuery([AnnotatedSource(client, AnnotationStyle(), keep=cached)], DEPARTURES)
        following = FollowedQuery(query)
        try:
            for _ in following.run(lambda seconds: not self.over.wait(seconds)):
                with self.lock:
                    self.answers += 1
        except EndpointError:
            following.failed += 1
        finally:
            client.close()
            with self.lock:
                self.late, self.failed = self.late + following.late, self.failed + following.failed


def loads(experiment: FollowingExperiment, clients: int, cached: bool) -> tuple[Load, list[Sample]]:
    """Measure one number of clients."""
    with TemporaryDirectory() as folder:
        files = _write_files(experiment, Path(folder))
        crowd = Crowd()
        with _serving(*files) as (address, ended):
            threads = [Thread(target=crowd.follow, args=(address, cached), daemon=True) for _ in range(clients)]
            began, before = time.monotonic(), time.process_time()
            for thread in threads:
                thread.start()
            samples = list(_sampled(clients, cached, experiment.measured / 1000))
            crowd.over.set()
            for thread in threads:
                thread.join(30)
            seconds, used = time.monotonic() - began, time.process_time() - before
            served = ended()
    per_client = 1000 * seconds * clients
    return Load(
        clients=clients,
        cached=cached,
        seconds=round(seconds, 2),
        server_percent=100 * served.seconds / seconds,
        client_percent=100 * used / seconds / clients,
        requests=served.requests,
        pages=served.pages,
        kilobytes_each=served.sent / per_client,
        answers=crowd.answers,
        late=crowd.late,
        failed=crowd.failed,
    ), samples


def _sampled(clients: int, cached: bool, seconds: float) -> Iterator[Sample]:
    began, used = time.monotonic(), time.process_time()
    last = began
    while last - began < seconds:
        time.sleep(SAMPLE_INTERVAL_S)
        now, more = time.monotonic(), time.process_time()
        yield Sample(clients, cached, round(now - began, 2), 100 * (more - used) / (now - last) / clients)
        last, used = now, more


def _write_files(experiment: FollowingExperiment, folder: Path) -> tuple[Path, Path]:
    """Write the files that a server serves; times count from its start."""
    static, held = trains(experiment.trains, experiment.lasts, experiment.measured + 60_000)
    data, elements = folder / "trains.nt", folder / "delays.tsv"
    serialize(static, data, format=RdfFormat.N_TRIPLES)
    lines = (f"{one.since + 1}\t{one.until + 1}\t{one.triple} .\n" for one in held)
    elements.write_text("".join(lines), "utf-8")
    return data, elements


@contextmanager
def _serving(data: Path, elements: Path) -> "Iterator[tuple[str, Ended]]":
    """Start a server as a process; yield its address, and a function that ends it and returns its counters."""
    with socket.create_server((LOOPBACK_HOST, 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "freshkeeper", "serve-fragments", str(data), "--elements", str(elements)]
    more = ["--from-now", "--port", str(port), "--path", "/trains"]
    process = subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        if "serving" not in first:
            raise InputError(f"the server did not begin: {first.strip()}")
        yield f"http://{LOOPBACK_HOST}:{port}/trains", Ended(process)
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@dataclass(frozen=True, eq=False)
class Ended:
    """Ends a server that runs in a process of its own."""

    process: "subprocess.Popen[str]"

    def __call__(self) -> ServerCounters:
        """End the server and return its counters."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=60)
        found = SERVER_SUMMARY.search(said)
        if found is None:
            raise InputError(f"the server ended with {said.strip()!r}")
        requests, pages, sent, seconds = (each.replace(",", "") for each in found.groups())
        return ServerCounters(int(requests), int(pages), int(sent), float(seconds))
