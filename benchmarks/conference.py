"""The experiments of seeds/000: one query, more static data, many instances; the snapshot evaluator in the same run.

python benchmarks/conference.py                          10⁴ to 10⁶ static triples, 2¹⁰ queries at 10⁵, about 2 minutes
python benchmarks/conference.py --long                   and 10⁷ static triples, 2¹⁰ queries there, about 4 minutes
python benchmarks/conference.py --at 10000000 --with F   this size alone; figures join those that are in F, so that
                                                         the sizes may be measured one by one
"""

import json
import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from stopwatch import ratios, show

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines, Columns
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.native.templates import template_query, templates_of
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.simulator.trace.conference import Conference, author_name, floor_plan, papers, query_texts, sightings
from freshkeeper.simulator.trace.conference_queries import FLOOR_PLAN, STREAM

PUBLISHED = {"q1": 0.47, "q2": 3.90, "q3": 0.51, "q4": 0.53, "q5": 21.83}
"""Milliseconds per execution at 10⁵ static triples, on other hardware."""
PEOPLE, AUTHOR = 1_000, 350
SIGHTINGS, FEW, FEWER = 100_000, 300, 2_000
"""Elements that native queries take; those that the snapshot evaluator and Q2, whose answers are many, take."""
INSTANCES = (1, 16, 256, 1024)
LARGEST = 10_000_000
"""Static triples."""
DIFFERENT, BY_SNAPSHOT, DIFFERENT_AT = 64, 4, 100_000
"""Queries that are no instances of one template; how many the snapshot evaluator registers; over so many triples."""


@dataclass(eq=False)
class Given:
    """A stream that was read before."""

    elements: Columns

    def batches(self) -> Iterator[Columns]:
        """All at once."""
        yield self.elements


@dataclass(eq=False)
class Setting:
    """The conference with so many static triples."""

    place: Path
    triples: int
    dictionary: Dictionary = field(default_factory=Dictionary)

    def __post_init__(self) -> None:
        """Draw it, and load it."""
        progress(f"drawing {self.triples:,} triples")
        dblp, plan, stream = (self.place / name for name in ("dblp.nt", "floorplan.nt", "rfid.nq"))
        _write(dblp, islice(papers(1), self.triples))
        _write(plan, floor_plan(1).lines())
        _write(stream, islice(sightings(Conference(people=PEOPLE), 1), SIGHTINGS))
        progress(f"loading {self.triples:,} triples")
        with get_context("spawn").Pool(1) as alone:
            self.load_s, self.peak_mb = alone.apply(loaded, (dblp,))
        self.graphs = StaticGraphs(self.dictionary, {FLOOR_PLAN: plan, "": dblp})
        self.graphs.load()
        self.elements = Columns.joined([*ColumnLines(TimedLines.file(stream), self.dictionary).batches()])

    def native(self, number: str, count: int) -> float:
        """Milliseconds per element, the second time."""
        query = parse(query_texts(author_name(AUTHOR))[number])
        return min(self._timed(lambda: self._quiet(build(query, self.graphs, evaluator=EvaluatorKind.NATIVE,
                   dictionary=self.dictionary)), count) for _ in range(2))  # fmt: skip

    def snapshot(self, number: str, count: int) -> float:
        """Milliseconds per element."""
        query = parse(query_texts(author_name(AUTHOR))[number])
        return self._timed(lambda: build(query, self.graphs, evaluator=EvaluatorKind.SNAPSHOT), count)

    def instances(self, number: str, count: int) -> tuple[float, float]:
        """Seconds to register so many instances from their texts, and elements per second then."""
        names = [author_name(n * PEOPLE // count if count < PEOPLE else n) for n in range(count)]
        texts = {name: query_texts(name)[number] for name in names}
        made: list[ContinuousQuery] = []
        registering = cpu(lambda: made.extend(self._registered(texts)))
        return registering, 1000 / self._timed(lambda: made[0], SIGHTINGS)

    def different(self, evaluator: EvaluatorKind, count: int) -> tuple[float, float]:
        """Seconds and megabytes that it takes to register each of several queries with windows of their own."""
        text, queries, before = query_texts(author_name(AUTHOR))["q3"], list[ContinuousQuery](), resident()
        texts = [text.replace("5s", f"{5000 + n}ms") for n in range(count)]
        dictionary = self.dictionary
        took = cpu(lambda: queries.extend(
            build(parse(each), self.graphs, evaluator=evaluator, dictionary=dictionary) for each in texts
        ))  # fmt: skip
        return took / count, (resident() - before) / count

    def _registered(self, texts: dict[str, str]) -> Iterator[ContinuousQuery]:
        templates = templates_of(texts, parse, self.graphs)
        together = {name for template in templates for name in template.names}
        yield from (template_query(template, self.graphs) for template in templates)
        for name, text in texts.items():
            if name not in together:
                yield self._quiet(build(parse(text), self.graphs, dictionary=self.dictionary))

    def _quiet(self, query: ContinuousQuery) -> ContinuousQuery:
        assert isinstance(query, MovingQuery), "the queries of the paper move with every element"
        query.quiet = True
        return query

    def _timed(self, made: Callable[[], ContinuousQuery], count: int) -> float:
        query = made()
        results = run(query, {STREAM: Given(self.elements.part(0, count))})
        return cpu(lambda: deque(results, 0)) / count * 1000


def _write(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)


def cpu(work: Callable[[], object]) -> float:
    """Seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def loaded(path: Path) -> tuple[float, float]:
    """Seconds to load a graph, and the most megabytes that a process had which does nothing else."""
    graphs = StaticGraphs(Dictionary(), {"": path})
    return cpu(graphs.load), peak()


def progress(said: str) -> None:
    """To whoever waits."""
    print(f"{time.process_time():6.1f} s: {said}", file=sys.stderr, flush=True)


def peak() -> float:
    """The most megabytes that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def resident() -> float:
    """Megabytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


def single(setting: Setting, found: dict[str, float]) -> list[list[str]]:
    """Experiments 1 and 2: milliseconds per triple of each query."""
    rows, size = [], f"{setting.triples:,}"
    for number, published in PUBLISHED.items():
        progress(f"{number} at {size}")
        mine = setting.native(number, FEWER if number == "q2" else SIGHTINGS)
        theirs = setting.snapshot(number, FEW) if setting.triples <= 1_000_000 else None
        found[f"{number}_ms_{setting.triples}"] = mine
        if theirs is not None:
            found[f"{number}_snapshot_over_native_{setting.triples}"] = theirs / mine
        snapshot = ["", ""] if theirs is None else [f"{theirs:.3f}", f"{theirs / mine:,.0f}"]
        rows.append([f"{number.upper()}, {size}", f"{published}", *snapshot, f"{mine:.5f}"])
    return rows


def many(setting: Setting, found: dict[str, float]) -> list[list[str]]:
    """Experiment 3: instances of one template."""
    rows = []
    for number in ("q1", "q3", "q4"):
        for count in INSTANCES if setting.triples == DIFFERENT_AT else INSTANCES[-1:]:
            progress(f"{count} times {number} at {setting.triples:,}")
            registering, rate = setting.instances(number, count)
            found[f"{number}_{count}_per_s_{setting.triples}"] = rate
            found[f"{number}_{count}_register_s_{setting.triples}"] = registering
            rows.append([f"{number.upper()}, {setting.triples:,}", f"{count}", f"{registering:.2f}", f"{rate:,.0f}"])
    return rows


def different(setting: Setting, found: dict[str, float]) -> list[list[str]]:
    """What each of several queries over the same graphs takes that are no instances of one template."""
    rows = []
    for kind, count in ((EvaluatorKind.NATIVE, DIFFERENT), (EvaluatorKind.SNAPSHOT, BY_SNAPSHOT)):
        progress(f"{count} different queries, {kind}")
        seconds, megabytes = setting.different(kind, count)
        found |= {f"different_{kind}_s": seconds, f"different_{kind}_mb": megabytes}
        rows.append([f"{kind}, {count} queries", f"{seconds * 1000:.1f}", f"{megabytes:.2f}"])
    return rows


def sizes() -> list[int]:
    """How many static triples are asked for."""
    if "--at" in sys.argv:
        return [int(sys.argv[sys.argv.index("--at") + 1])]
    return [10_000, 100_000, 1_000_000, *([LARGEST] if "--long" in sys.argv else [])]


def main() -> None:
    """Measure and print."""
    kept = Path(sys.argv[sys.argv.index("--with") + 1]) if "--with" in sys.argv else None
    found: dict[str, float] = json.loads(kept.read_text("utf-8")) if kept is not None and kept.exists() else {}
    one, instances, loads, others = [], [], [], []
    for triples in sizes():
        with tempfile.TemporaryDirectory() as folder:
            setting = Setting(Path(folder), triples)
            loads.append([f"{triples:,}", f"{setting.load_s:.2f}", f"{setting.peak_mb:,.0f}"])
            found |= {f"load_s_{triples}": setting.load_s, f"peak_mb_{triples}": setting.peak_mb}
            others += different(setting, found) if triples == DIFFERENT_AT else []
            one += single(setting, found)
            instances += many(setting, found) if triples in (DIFFERENT_AT, LARGEST) else []
            if kept is not None:
                kept.write_text(json.dumps(found), "utf-8")
    for number in PUBLISHED:
        each = [value for name, value in found.items() if name.startswith(f"{number}_ms_")]
        found[f"{number}_slowest_over_fastest"] = max(each) / min(each)
    columns = ["query, static triples", "published, other hardware", "snapshot", "times", "native"]
    show("One query: milliseconds of one core per triple of the stream", columns, one)
    columns = ["template, static triples", "queries", "registered in, s", "triples/s"]
    show("Many instances of one template", columns, instances)
    show("Loading static triples, from N-Triples to columns", ["triples", "s", "process at most, MB"], loads)
    show("Registering queries that all differ, each", ["100,000 static triples", "ms", "MB"], others)
    ratios(found)


if __name__ == "__main__":
    main()
