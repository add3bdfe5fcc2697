"""Continuous queries: triples per second from file to answers against a naive evaluator, registration, flat memory.

python benchmarks/queries.py          about 20 s
python benchmarks/queries.py --long   ten million triples through a window of 10 s
"""

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

import pyoxigraph as ox
from stopwatch import ratios, seconds, show

from freshkeeper.maintenance.base.terms import term_json
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.outputs.result_sink import ResultSink
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.streams.batch import Batch
from freshkeeper.maintenance.streams.timed_lines import TimedLines

RANGE, STEP, TRIPLES = 10_000, 2_000, 100_000
JOIN = """PREFIX : <http://e/> SELECT ?o ?s ?v FROM NAMED WINDOW :w ON :s [RANGE PT10S STEP PT2S]
WHERE { WINDOW :w { ?o :by ?s . ?o :value ?v } }"""
COUNT = """PREFIX : <http://e/> SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW :w ON :s [RANGE PT10S STEP PT10S]
WHERE { WINDOW :w { ?o :by ?s } }"""
NUMBER = "http://www.w3.org/2001/XMLSchema#integer"


def lines(first: int, last: int, spread: float) -> bytes:
    """Observations of a thousand sensors, two triples each, `spread` ms apart."""
    draw = random.Random(first)
    return b"".join(
        b"%d\t<http://e/obs%d> <http://e/by> <http://e/sensor%d> .\n%d\t<http://e/obs%d> <http://e/value> "
        b'"%d"^^<%s> .\n' % (at, n, draw.randrange(1000), at, n, draw.randrange(100), NUMBER.encode())
        for n in range(first, last)
        for at in [int(n * spread)]
    )


def engine(path: Path, out: Path, kind: EvaluatorKind = EvaluatorKind.AUTO) -> int:
    """From file to NDJSON; returns the number of lines."""
    count = 0
    with out.open("w", encoding="utf-8") as file:
        delivery = ResultSink.begin(file, "ndjson")
        for result in run(build(parse(JOIN), evaluator=kind), {"http://e/s": TimedLines.file(path)}):
            delivery.put(result)
            count += 1
    return count


def naive(path: Path, out: Path) -> int:
    """The same by parsing line by line and building the window anew at every evaluation."""
    elements = []
    for line in path.read_bytes().splitlines():
        at, _, statement = line.partition(b"\t")
        elements.append((int(at), next(iter(ox.parse(statement, format=ox.RdfFormat.N_QUADS)))))
    text = parse(JOIN).sparql
    graph, last, count = ox.NamedNode("http://e/w"), elements[-1][0], 0
    with out.open("w", encoding="utf-8") as file:
        for now in range(STEP, last + 1, STEP):
            store = ox.Store()
            for time, q in elements:
                if now - RANGE < time <= now:
                    store.add(ox.Quad(q.subject, q.predicate, q.object, graph))
            found = store.query(text)
            assert isinstance(found, ox.QuerySolutions)
            names = [variable.value for variable in found.variables]
            answers = [
                {"bindings": {n: term_json(t) for n, t in zip(names, row, strict=True)}, "fresh": 1.0} for row in found
            ]
            file.write(json.dumps({"t": now, "answers": answers}) + "\n")
            count += 1
    return count


class Endless:
    """A stream that is made while it is read, so that no file of a gigabyte is needed."""

    def __init__(self, triples: int) -> None:
        """So many triples, 20,000 in a second of event time."""
        self.triples = triples

    def batches(self) -> Iterator[Batch]:
        """Ten thousand at a time."""
        for first in range(0, self.triples // 2, 5_000):
            text = lines(first, first + 5_000, 0.1)
            yield from TimedLines("made", partial(BytesIO, text)).batches()


def resident() -> float:
    """Megabytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def memory(triples: int) -> list[float]:
    """Resident memory after each tenth of the stream."""
    seen, mark = [], 1
    for result in run(build(parse(COUNT)), {"http://e/s": Endless(triples)}):
        if result.t * 20 >= mark * triples // 10:
            seen.append(resident())
            mark += 1
    return seen


def register() -> int:
    """A thousand different queries."""
    registered = Engine()
    for n in range(1_000):
        registered.register(build(parse(JOIN.replace(":w", f":w{n}"))))
    return len(registered.queries)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        path, out, plain = Path(folder) / "s.nq", Path(folder) / "out", Path(folder) / "naive"
        path.write_bytes(lines(0, TRIPLES // 2, 2.0))
        mine = seconds(lambda: engine(path, out), 3, clock=time.process_time)
        snapshot = seconds(lambda: engine(path, plain, EvaluatorKind.SNAPSHOT), 3, clock=time.process_time)
        theirs = seconds(lambda: naive(path, plain), 1, clock=time.process_time)
        answers = sum(len(json.loads(line)["answers"]) for line in out.open(encoding="utf-8"))
        assert answers == sum(len(json.loads(line)["answers"]) for line in plain.open(encoding="utf-8"))
    registering = seconds(register, 3, clock=time.process_time)
    triples = 10_000_000 if "--long" in sys.argv else 1_000_000
    began = time.perf_counter()
    flat = memory(triples)
    through = triples / (time.perf_counter() - began)
    rows = [
        [f"engine: {TRIPLES:,} triples, {answers:,} answers", f"{mine:.2f} s", f"{TRIPLES / mine:,.0f} triples/s"],
        ["by the snapshot evaluator", f"{snapshot:.2f} s", f"{TRIPLES / snapshot:,.0f} triples/s"],
        ["naive: the same answers", f"{theirs:.2f} s", f"{TRIPLES / theirs:,.0f} triples/s"],
        ["register 1,000 queries", f"{registering:.2f} s", ""],
        [
            f"{triples:,} triples through 10 s: memory",
            f"{flat[0]:.0f} to {flat[-1]:.0f} MB",
            f"{through:,.0f} triples/s",
        ],
    ]
    show("Continuous queries: a join of two patterns, range 10 s, step 2 s, CPU time", ["what", "", ""], rows)
    print("resident memory after each tenth, MB:", " ".join(f"{mb:.0f}" for mb in flat))
    over = {"engine_over_naive": theirs / mine, "engine_over_snapshot": snapshot / mine}
    ratios(over | {"memory_last_over_first": flat[-1] / flat[0]})


if __name__ == "__main__":
    main()
