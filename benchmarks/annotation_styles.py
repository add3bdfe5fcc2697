"""Following 004's trains in each way to annotate them: requests, bytes and client time of an evaluation.

Fifty trains with three static triples and two that change every ten seconds; forty changes. Requests go to a server in
this process, so the time is the client's and the server's together. `later` is the mean of the last ten evaluations.

    .venv/bin/python benchmarks/annotation_styles.py
"""

import time
from dataclasses import dataclass
from email.utils import formatdate

from freshkeeper.maintenance.fragments.annotated_data import AnnotatedData
from freshkeeper.maintenance.fragments.annotated_source import AnnotatedSource
from freshkeeper.maintenance.fragments.annotation_style import Speaking, Style, Timing
from freshkeeper.maintenance.fragments.following import Following, Pauses
from freshkeeper.maintenance.fragments.fragment_server import FragmentServer
from freshkeeper.maintenance.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.service.http.exchange import Answer, Call, ConnectionPool, Deadline
from freshkeeper.simulator.trace.trains import trains

T = "http://example.org/train/"
QUERY = f"""PREFIX t: <{T}> SELECT * {{ ?id t:delay ?delay . ?id t:platform ?platform .
?id t:headSign ?sign . ?id t:routeLabel ?route . ?id t:departureTime ?at }}"""
START, LASTS, CHANGES, TRAINS = 1_000_000_000_000, 10_000, 40, 50


@dataclass(eq=False)
class Wire(ConnectionPool):
    """A server in this process, and a clock that sleeping sets."""

    server: FragmentServer | None = None
    ms: int = START
    bytes: int = 0
    requests: int = 0

    def exchange(self, call: Call, deadline: Deadline) -> Answer:
        """One request, of which nothing is sent."""
        assert deadline.go()
        assert self.server is not None
        headers = {name.lower(): value for name, value in call.headers.items()} | {"host": "source"}
        answer = self.server.answer(call.method, "/" + call.url.split("/", 3)[3], headers)
        self.requests, self.bytes = self.requests + 1, self.bytes + len(answer.body)
        given = {name.lower(): value for name, value in answer.headers.items()} | {"date": formatdate(self.ms // 1000)}
        return Answer(int(answer.status[:3]), "", given, answer.body)

    def sleep(self, seconds: float) -> bool:
        """Time goes on."""
        self.ms += round(seconds * 1000)
        return True


def measured(style: Style, cached: bool, history: bool) -> str:
    """One line: of the first evaluation and of later ones."""
    static, elements = trains(TRAINS, LASTS, START + (CHANGES + 2) * LASTS, START)
    wire = Wire()
    data = AnnotatedData(static, elements, style, "http://source/data", history)
    wire.server = FragmentServer(data, lambda: wire.ms, "/data")
    client = FragmentsOverHttp("http://source/data", pool=wire, wall=lambda: wire.ms / 1000, cached=cached)
    source = AnnotatedSource(client, style, keep=cached)
    began, rows = time.process_time(), []
    following = Following(source, QUERY, pauses=Pauses(skew=10))
    for _ in following.run(wire.sleep):
        rows.append((wire.requests, wire.bytes / 1000, (time.process_time() - began) * 1000))
        if following.evaluations == CHANGES:
            break
    first, later = rows[0], [(b - a) / 10 for a, b in zip(rows[-11], rows[-1], strict=True)]
    shown = "  ".join(f"{a:6.0f} {b:8.1f}" for a, b in zip(first, later, strict=True))
    kept = ("cache" if cached else "no cache") + (", history" if history else "")
    return f"{style.speaking:12} {style.timing:11} {kept:18} {shown}"


def main() -> None:
    """One line for each style, then without a cache, then with a history that grows."""
    print(f"{'':43}   requests         kB               ms")
    print(f"{'':43}  first    later   first    later   first    later")
    for speaking in Speaking:
        for timing in Timing:
            print(measured(Style(speaking, timing), cached=True, history=False), flush=True)
    for speaking in Speaking:
        print(measured(Style(speaking), cached=False, history=False), flush=True)
    print(measured(Style(Speaking.GRAPH, Timing.INTERVAL), cached=True, history=True), flush=True)


if __name__ == "__main__":
    main()
