"""Memory over names that never come again: a native query over lines, each with a name of its own.

.venv/bin/python benchmarks/fresh_names.py            # 10,000,000 of them; another count as an argument
"""

import gc
import json
import resource
import sys
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path
from time import process_time
from typing import BinaryIO, cast

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.streams.timed_lines import TimedLines

EACH = 5_000
"""Elements of one read, and of one second."""
TEXT = "SELECT ?s ?o FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S] { WINDOW <urn:w> { ?s <urn:p> ?o } }"


class FreshNames(RawIOBase):
    """Lines whose subjects were never seen before."""

    def __init__(self, count: int) -> None:
        self._parts = self._lines(count)

    def read1(self, size: int = -1, /) -> bytes:
        """The next second."""
        del size
        return next(self._parts, b"")

    def _lines(self, count: int) -> Iterator[bytes]:
        for first in range(0, count, EACH):
            time = first // EACH * 1_000
            yield b"".join(
                b"%d\t<http://example.org/name/%d> <urn:p> <urn:o> .\n" % (time, n) for n in range(first, first + EACH)
            )


def resident() -> float:
    """Megabytes that the process has now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1e6


def main(count: int) -> None:
    """Memory after every tenth."""
    ids = Dictionary()
    engine = Engine([build(parse(TEXT), evaluator=EvaluatorKind.NATIVE, dictionary=ids)])
    engine.listen("urn:s", TimedLines("fresh names", lambda: cast(BinaryIO, FreshNames(count))))
    began, answers, found = process_time(), 0, []
    for number, result in enumerate(engine.run(), 1):
        answers += len(result.answers)
        if number % max(1, count // EACH // 10) == 0:
            gc.collect()
            found.append(resident())
            print(
                f"{number * EACH:>12,} names {found[-1]:8.0f} MB {len(ids):>9,} ids {ids.sweeps:>4} sweeps", flush=True
            )
    rate = count / (process_time() - began)
    grown = found[-1] / found[len(found) // 3]
    print(f"{answers:,} answers, {rate:,.0f} elements/s; memory at the end is {grown:.2f} times that after a third")
    print(
        json.dumps(
            {"names": count, "mb": [round(one) for one in found], "grown": round(grown, 3), "per_second": round(rate)}
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
