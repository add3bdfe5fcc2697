"""Thousands of conjunctive queries as one automaton (003): triples per second by queries, patterns and window.

python benchmarks/automaton.py                   about two minutes
python benchmarks/automaton.py --plots docs      draws docs/automaton-*.png as well
python benchmarks/automaton.py --json rates.json keeps all that was measured

All times are processor seconds of one thread, from columns of ids to columns of solutions; solutions as text are
measured apart. What matching costs depends on how much matches, so the solutions of a triple stand beside every rate:
as delivered (each to every query that wants it), and different ones. Asked for: at least 500k triples/s at 100 queries,
100k at 2,000 and 25k at 10,000 (T = 100, at most 3 patterns); built in 100 ms at 2,000.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import altair as alt
import vl_convert
from stopwatch import ratios, show

from freshkeeper.maintenance.engine.automaton.conjunction import Conjunction
from freshkeeper.maintenance.engine.automaton.pattern_set import PatternSet
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines, Columns
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.outputs.formats import NdJson, chunks
from freshkeeper.maintenance.pages.charts import VEGA_LITE
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build_all
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.simulator.trace.building import STREAM, Building, queries, readings

BATCH, BATCHES, WARM = 5_000, 8, 5_000
NUMBERS, PATTERNS, WINDOWS = (10, 100, 500, 1_000, 2_000, 5_000, 10_000), (1, 2, 3, 4, 5), (10, 50, 100, 200, 500)
DEFAULT = 1_000
PUBLISHED = {
    "queries": {100: 64_000, 2_000: 3_000},
    "patterns": {1: 30_000, 5: 3_000},
    "window": {10: 9_500, 50: 6_200, 500: 4_500},
}
"""003's figures as its text says them: a quad-core at 2.20 GHz, Java 7, data and queries of its own."""
OURS, SNAPSHOT, THEIRS = "here", "here, a snapshot evaluator per query", "published (other hardware and data)"


@dataclass(frozen=True)
class Measured:
    """One setting: what was asked, how fast, and how much matched."""

    queries: int
    patterns: int
    window: int
    rate: float
    delivered: float
    different: float
    read: float
    built: float


def spent(run: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    began = time.process_time()
    run()
    return time.process_time() - began


@cache
def stream(dictionary: Dictionary) -> Columns:
    """What all settings are measured on."""
    text = "".join(each.line for each in islice(readings(Building(), 0), WARM + BATCH * BATCHES))
    return ColumnLines(nothing(), dictionary).read(text.encode())


def nothing() -> TimedLines:
    """What reads lines that are there already."""
    return TimedLines("readings", BytesIO)


def measure(count: int, patterns: int, window: int, dictionary: Dictionary) -> Measured:
    """The median over batches, after a warm-up; built twice, as the first time compiles."""
    texts = dict(enumerate(queries(Building(patterns=patterns, window=window), 0, count)))
    read: dict[str, Conjunction] = {}
    reading = spent(lambda: read.update({f"q{n}": Conjunction.of(parse(text)) for n, text in texts.items()}))
    made = PatternSet(dictionary)

    def register() -> None:
        nonlocal made
        made = PatternSet.of(read, dictionary)
        made.prepare()

    built = statistics.median(spent(register) for _ in range(4))
    elements = stream(dictionary)
    made.feed(elements.part(0, WARM))
    times, delivered, different = [], 0, 0
    for at in range(WARM, len(elements), BATCH):
        part = elements.part(at, at + BATCH)
        began = time.process_time()
        found = made.feed(part)
        times.append(time.process_time() - began)
        delivered += len(found)
        different += sum(each.solutions.form.size for each in found.parts)
    measured = BATCH * len(times)
    rate = BATCH / statistics.median(times)
    return Measured(count, patterns, window, rate, delivered / measured, different / measured, reading, built)


def beside(count: int, triples: int, evaluator: EvaluatorKind) -> tuple[float, float]:
    """Triples per second of an automaton, and of as many continuous queries that are evaluated by themselves."""
    texts = list(queries(Building(), 0, count))
    lines = "".join(each.line for each in islice(readings(Building(), 0), triples)).encode()
    dictionary = Dictionary()
    elements = ColumnLines(nothing(), dictionary).read(lines)
    together = PatternSet.of({f"q{n}": text for n, text in enumerate(texts)}, dictionary)
    together.prepare()
    began = time.process_time()
    found = together.feed(elements)
    matched = sum(len(result.answers) for result in found.results())
    own = time.process_time() - began
    names = [RegisteredQuery(parse(text), f"q{n}") for n, text in enumerate(texts)]
    each = [
        query for one in names for query in build_all([one], evaluator=evaluator, dictionary=dictionary, quiet=True)
    ]
    quads = [(time_, quad) for time_, quad in zip(elements.times.tolist(), elements.quads, strict=True)]
    given = {STREAM: Given(elements) if evaluator is EvaluatorKind.NATIVE else quads}
    began = time.process_time()
    answers = sum(len(result.answers) for result in run(each, given))
    theirs = time.process_time() - began
    assert answers == matched, f"{answers} solutions of each by itself, {matched} of the automaton"
    return triples / own, triples / theirs


@dataclass(frozen=True, eq=False)
class Given:
    """A stream that was read before."""

    elements: Columns

    def batches(self) -> Iterator[Columns]:
        """All at once."""
        yield self.elements


def as_text(count: int) -> tuple[float, float]:
    """Triples, and solutions, per second from timestamped N-Quads to NDJSON."""
    lines = "".join(each.line for each in islice(readings(Building(), 0), BATCH)).encode()
    patterns = PatternSet.of({f"q{n}": text for n, text in enumerate(queries(Building(), 0, count))})
    patterns.prepare()
    writer, written = NdJson(), 0
    began = time.process_time()
    matches = patterns.feed(ColumnLines(nothing(), patterns.dictionary).read(lines))
    for result in matches.results():
        written += sum(map(len, chunks(writer, result)))
    taken = time.process_time() - began
    assert written > len(matches)
    return BATCH / taken, len(matches) / taken


def row(measured: Measured) -> list[str]:
    """A line of the table."""
    setting = (f"{measured.queries:,}", str(measured.patterns), str(measured.window))
    shown = (f"{measured.rate:,.0f}", f"{measured.delivered:.1f}", f"{measured.different:.1f}")
    return [*setting, *shown, f"{measured.built * 1e3:.0f}"]


def points(results: list[Measured], snapshots: dict[int, float]) -> Iterator[dict[str, Any]]:
    """What the plots show."""
    for each in results:
        default = {"queries": DEFAULT, "patterns": 3, "window": 100}
        for axis in default:
            if all(getattr(each, other) == value for other, value in default.items() if other != axis):
                yield {"axis": axis, "at": getattr(each, axis), "rate": each.rate, "who": OURS}
    for axis, published in PUBLISHED.items():
        for at, rate in published.items():
            yield {"axis": axis, "at": at, "rate": rate, "who": THEIRS}
    for count, reached in snapshots.items():
        yield {"axis": "queries", "at": count, "rate": reached, "who": SNAPSHOT}


TITLES = {"queries": "queries (at most 3 patterns, T = 100)", "patterns": "patterns in a query at most (1,000 queries)",
          "window": "window T, triples (1,000 queries)"}  # fmt: skip


DECADES = [10**n for n in range(1, 8)]


def _ticks(values: Iterable[float]) -> alt.Axis:
    return alt.Axis(values=sorted(values), format="~s", gridColor="#e3e6ea", labelOverlap=True)


def draw(rows: list[dict[str, Any]], directory: Path) -> None:
    """A plot for each of 003's Figures 5 to 7, with the published points in grey."""
    who, colours = [OURS, SNAPSHOT, THEIRS], ["#0072b2", "#d55e00", "#8a9099"]
    for axis, title in TITLES.items():
        data = [each for each in rows if each["axis"] == axis]
        kind: Literal["linear", "log"] = "linear" if axis == "patterns" else "log"
        names = [name for name in who if any(each["who"] == name for each in data)]
        scale = alt.Scale(domain=names, range=[colours[who.index(name)] for name in names])
        legend = alt.Legend(title=None, orient="top", labelLimit=300)
        chart = (
            alt.Chart(alt.InlineData(values=data), width=520, height=260)
            .mark_line(point=alt.OverlayMarkDef(size=60))
            .encode(
                x=alt.X("at:Q", title=title, scale=alt.Scale(type=kind), axis=_ticks({each["at"] for each in data})),
                y=alt.Y("rate:Q", title="triples per second", scale=alt.Scale(type="log"), axis=_ticks(DECADES)),
                color=alt.Color("who:N", scale=scale, legend=legend, sort=names),
                strokeDash=alt.StrokeDash("who:N", legend=None, sort=names),
            )
        )
        picture = vl_convert.vegalite_to_png(chart.to_json(), vl_version=VEGA_LITE, scale=2)
        (directory / f"automaton-{axis}.png").write_bytes(picture)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plots", type=Path, help="a directory to draw into")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    asked = parser.parse_args()
    dictionary = Dictionary()
    settings = dict.fromkeys(
        [(n, 3, 100) for n in NUMBERS] + [(DEFAULT, k, 100) for k in PATTERNS] + [(DEFAULT, 3, t) for t in WINDOWS]
    )
    measure(10, 3, 100, dictionary)  # compiles
    results = [measure(*setting, dictionary) for setting in settings]
    compared = {count: beside(count, triples, EvaluatorKind.SNAPSHOT) for count, triples in ((10, 2_000), (100, 400))}
    beside(4, BATCH, EvaluatorKind.NATIVE)  # compiles
    plans = {count: beside(count, BATCH, EvaluatorKind.NATIVE) for count in (1, 2, 4, 16, 64)}
    columns = ["queries", "patterns ≤", "T", "triples/s", "solutions/triple", "different", "built, ms"]
    show("Conjunctive queries as one automaton, processor time of one thread", columns, list(map(row, results)))
    for who, rates in (("snapshot evaluators", compared), ("native plans", plans)):
        rows = [[f"{n:,}", *(f"{rate:,.0f}" for rate in (*both, both[0] / both[1]))] for n, both in rates.items()]
        show(f"Beside as many {who}, to answers, triples/s", ["queries", "automaton", who, "×"], rows)
    text = [[f"{n:,}", *(f"{rate:,.0f}" for rate in as_text(n))] for n in (100, 2_000)]
    show("From N-Quads to NDJSON", ["queries", "triples/s", "solutions/s"], text)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n", encoding="utf-8")
    if asked.plots:
        draw(list(points(results, {n: theirs for n, (_, theirs) in compared.items()})), asked.plots)
    by = {(each.queries, each.patterns, each.window): each for each in results}
    ratios(
        {f"rate_{n}_over_asked": by[n, 3, 100].rate / least for n, least in ((100, 5e5), (2_000, 1e5), (10_000, 2.5e4))}
        | {"built_2000_over_100_ms": by[2_000, 3, 100].built / 0.1}
        | {f"over_snapshots_at_{n}": own / theirs for n, (own, theirs) in compared.items()}
        | {f"over_plans_at_{n}": own / theirs for n, (own, theirs) in plans.items()}
        | {"patterns_1_over_5": by[DEFAULT, 1, 100].rate / by[DEFAULT, 5, 100].rate}
        | {"window_10_over_500": by[DEFAULT, 3, 10].rate / by[DEFAULT, 3, 500].rate}
    )


if __name__ == "__main__":
    main()
