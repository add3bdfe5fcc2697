"""Endless new terms: what is kept of them is what windows hold (benchmarks/fresh_names.py measures memory itself)."""

from collections.abc import Iterator
from io import BytesIO, RawIOBase
from typing import cast

from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.evaluator_kind import EvaluatorKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.rsp.engine import Engine
from freshkeeper.maintenance.run.build import build
from freshkeeper.maintenance.streams.timed_lines import TimedLines

TEXT = """REGISTER ISTREAM <urn:o> AS SELECT ?s ?t FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S]
{ WINDOW <urn:w> { ?s <urn:p> ?o . ?t <urn:p> ?o FILTER(?s != ?t) } }"""
SECOND, SECONDS = 4_000, 100


class FreshNames(RawIOBase):
    """Every second two names for each object, never seen before."""

    def __init__(self) -> None:
        """From the first second on."""
        self._parts = self._lines()

    def read1(self, size: int = -1, /) -> bytes:
        """The next second."""
        del size
        return next(self._parts, b"")

    def _lines(self) -> Iterator[bytes]:
        for second in range(SECONDS):
            numbers = range(second * SECOND, (second + 1) * SECOND)
            yield b"".join(b"%d\t<urn:n%d> <urn:p> <urn:o%d> .\n" % (second * 1000, n, n // 2) for n in numbers)


def test_ids_of_names_that_nothing_holds_any_more_are_given_to_others() -> None:
    ids = Dictionary()
    engine = Engine([build(parse(TEXT), evaluator=EvaluatorKind.NATIVE, dictionary=ids)])
    engine.listen("urn:s", TimedLines("fresh names", lambda: cast(BytesIO, FreshNames())))
    widths, answers = [], 0
    for result in engine.run():
        widths.append(ids.width)
        answers += len(result.answers)
        assert all(row is not None for row in result.answers[:3])  # decoded after whatever was freed
    assert answers == SECOND * SECONDS
    assert ids.sweeps >= 3
    assert max(widths) == max(widths[: SECONDS // 2]) < SECOND * SECONDS / 3
