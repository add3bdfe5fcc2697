"""Between bytes and ids: lines read as columns beside quads, memory under endless new terms, and answers written.

python benchmarks/columns.py          about a minute
python benchmarks/columns.py --long   ten million new IRIs through a window of 10 s, instead of one
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from pyoxigraph import Literal, NamedNode
from stopwatch import ratios, seconds, show

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines, Columns
from freshkeeper.maintenance.engine.columns.id_rows import IdRows
from freshkeeper.maintenance.engine.r2s import FreshnessColumns, Result
from freshkeeper.maintenance.outputs.formats import NdJson, chunks
from freshkeeper.maintenance.query.model import Form, Operator
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.timed_lines import TimedLines

TRIPLES, ANSWERS, RANGE, RATE = 200_000, 100_000, 10_000, 20
NUMBER = b"<http://www.w3.org/2001/XMLSchema#integer>"


def few(first: int, last: int) -> bytes:
    """Readings of a thousand sensors, a hundred values: nearly no term is new."""
    draw = np.random.default_rng(first)
    sensors, values = draw.integers(1_000, size=last - first), draw.integers(100, size=last - first)
    return b"".join(
        b'%d\t<http://e/sensor%d> <http://e/value> "%d"^^%b .\n' % (n // RATE, sensor, value, NUMBER)
        for n, sensor, value in zip(range(first, last), sensors.tolist(), values.tolist(), strict=True)
    )


def many(first: int, last: int) -> bytes:
    """Observations with an IRI of their own, told by two triples; half of their values are new: 0.75 terms a triple."""
    draw = np.random.default_rng(first)
    sensors = draw.integers(1_000, size=last - first)
    return b"".join(
        b'%d\t<http://e/obs%d> <http://e/by> <http://e/sensor%d> .\n%d\t<http://e/obs%d> <http://e/value> "%d"^^%b .\n'
        % (n // RATE, n, sensor, n // RATE, n, n // 2 * 7, NUMBER)
        for n, sensor in zip(range(first // 2, last // 2), sensors.tolist(), strict=False)
    )


def fresh(first: int, last: int) -> bytes:
    """Every subject is new."""
    line = b"%d\t<http://e/obs%d> <http://e/by> <http://e/sensor%d> .\n"
    return b"".join([line % (n // RATE, n, n % 1_000) for n in range(first, last)])


def lines_of(text: bytes) -> TimedLines:
    """A stream of some bytes."""
    return TimedLines("made", lambda: cast(BinaryIO, BytesIO(text)))


def made_of(first: int, last: int) -> Iterator[TimedLines]:
    """The same of new IRIs, made while they are read."""
    for n in range(first, last, 10_000):
        yield lines_of(fresh(n, min(last, n + 10_000)))


def speeds(text: bytes) -> tuple[float, float, float]:
    """Triples per second as quads and as columns, both knowing no term at first; and how many terms a triple brings."""

    def read(stream: Stream) -> Callable[[], None]:
        return lambda: deque(stream.batches(), 0).clear()

    dictionary = Dictionary()
    read(ColumnLines(lines_of(text), dictionary))()
    pairs = [
        (seconds(read(lines_of(text)), 1), seconds(lambda: read(ColumnLines(lines_of(text), Dictionary()))(), 1))
        for _ in range(5)
    ]
    quads, columns = sorted(pairs, key=lambda pair: pair[0] / pair[1])[2]
    return TRIPLES / quads, TRIPLES / columns, len(dictionary) / TRIPLES


def memory(triples: int) -> tuple[list[float], int]:
    """Resident megabytes after each tenth of so many new IRIs through a window, and the most ids at a time."""
    dictionary, held, seen = Dictionary(), deque[Columns](), list[float]()
    for tenth in range(10):
        for lines in made_of(tenth * triples // 10, (tenth + 1) * triples // 10):
            held.extend(ColumnLines(lines, dictionary).batches())
            while held[0].times[-1] <= held[-1].times[-1] - RANGE:
                held.popleft()
            dictionary.sweep()
        seen.append(resident())
    return seen, dictionary.width


def answers(dictionary: Dictionary, distinct: int) -> Result:
    """Three variables and a freshness for each answer; so many different terms."""
    draw, node = np.random.default_rng(1), [NamedNode(f"http://example.org/user/{n}") for n in range(distinct)]
    ids = dictionary.encode([*node, *map(Literal, range(distinct))])
    values = draw.choice(ids, (3, ANSWERS))
    freshness = FreshnessColumns(draw.random(ANSWERS), draw.integers(0, 100_000, ANSWERS))
    rows = IdRows(values, dictionary)
    return Result(1, Form.SELECT, Operator.RSTREAM, ("topic", "user", "n"), rows, freshness)


def writing(distinct: int) -> tuple[str, float, float, float]:
    """What is written; megabytes per second of columns, of terms, and of a copy of the same bytes."""
    dictionary = Dictionary()
    result = answers(dictionary, distinct)
    of_terms = replace(result, answers=list(result.answers), freshness=list(result.freshness or ()))
    columns, terms = NdJson(), NdJson()
    text = b"".join(map(bytes, chunks(columns, result))).decode()
    assert text == "".join(terms.lines(of_terms))
    line = np.frombuffer(text.encode(), np.uint8)
    runs = (lambda: [len(chunk) for chunk in chunks(columns, result)], lambda: list(terms.lines(of_terms)), line.copy)
    mine, theirs, copied = (line.size / seconds(run, 5) / 1e6 for run in runs)
    return f"{2 * distinct:,} terms", mine, theirs, copied


def resident() -> float:
    """Megabytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


def main() -> None:
    """Measure and print."""
    triples = 10_000_000 if "--long" in sys.argv else 1_000_000
    began = time.perf_counter()
    flat, width = memory(triples)
    through = triples / (time.perf_counter() - began)
    kinds = {"few": few, "many": many, "fresh": fresh}
    found = {name: speeds(made(0, TRIPLES)) for name, made in kinds.items()}
    written = [writing(1_000), writing(100_000)]
    show(
        "Text as quads and as columns, triples per second",
        ["new terms per triple", "quads", "columns", "columns / quads"],
        [[f"{new:.2f}", f"{q:,.0f}", f"{c:,.0f}", f"{c / q:.1f}"] for q, c, new in found.values()],
    )
    show(
        f"{ANSWERS:,} answers of three variables with freshness and age as NDJSON, MB/s",
        ["of", "columns", "terms", "memcpy", "columns / terms"],
        [[what, f"{c:,.0f}", f"{t:,.0f}", f"{m:,.0f}", f"{c / t:.0f}"] for what, c, t, m in written],
    )
    print(f"{triples:,} new IRIs through {RANGE // 1000} s: {through:,.0f} triples/s, at most {width:,} ids at a time")
    print("resident memory after each tenth, MB:", " ".join(f"{mb:.0f}" for mb in flat))
    ratios(
        {f"columns_over_quads_{name}": c / q for name, (q, c, _) in found.items()}
        | {"memory_last_over_first": flat[-1] / flat[0]}
        | {f"written_over_terms_{what.split()[0]}": c / t for what, c, t, _ in written}
    )


if __name__ == "__main__":
    main()
