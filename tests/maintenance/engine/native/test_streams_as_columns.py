"""A stream of lines is read as columns where native queries want it, and no answer depends on that."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import cast

import pytest
from conjunctions import conjunction
from evaluators import Elements, said, swept
from pyoxigraph import Triple

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines, Columns, as_columns
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.native_plan import plan_of
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind, NotNativeError
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.streams import timed_lines
from freshkeeper.maintenance.streams.opening import Directory
from freshkeeper.maintenance.streams.pace import Paced
from freshkeeper.maintenance.streams.timed_lines import TimedLines

QUERIES = 60


def lines(elements: Elements) -> TimedLines:
    """The same elements as text."""
    text = "".join(f"{time}\t{_statement(triple)} .\n" for time, triple in elements)
    return TimedLines("lines", lambda: BytesIO(text.encode()))


def _statement(triple: Triple) -> str:
    return " ".join(text_of(term) for term in triple)


def seeds(count: int) -> Sequence[str]:
    """Those of native queries."""
    found: list[str] = []
    while len(found) < count:
        case = conjunction(f"columns {len(found)}")
        try:
            plan_of(parse(case.text), case.graphs)
            found.append(case.seed)
        except (NotNativeError, InputError):
            found.append("")
    return [seed for seed in found if seed]


def results(seed: str, kinds: Sequence[EvaluatorKind]) -> list[list[Result]]:
    """What a query answers by each evaluator, all in one run over lines."""
    case, ids = conjunction(seed), Dictionary()
    query: Query = parse(case.text)
    running = [build(query, case.graphs, name=str(n), evaluator=kind, dictionary=ids) for n, kind in enumerate(kinds)]
    engine = Engine(running, case.drain)
    for name, elements in case.streams.items():
        if name in running[0].streams:
            engine.listen(name, lines(elements), case.delay)
    found: list[list[Result]] = [[] for _ in kinds]
    for result in engine.run():
        found[int(result.query)].append(result)
    assert all(isinstance(one.stream, ColumnLines) for one in engine.inputs)
    return found


@pytest.mark.parametrize("often", [False, True], ids=["", "with a sweep after every few elements"])
def test_answers_do_not_depend_on_how_a_stream_is_read(often: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_lines, "CHUNK", 300)
    freed = []
    if often:
        monkeypatch.setattr(Dictionary, "sweep", lambda ids: freed.append(swept(ids)))
    for seed in seeds(QUERIES):
        ((alone,), (natively, beside)) = (
            results(seed, [EvaluatorKind.SNAPSHOT]),
            results(seed, [EvaluatorKind.NATIVE, EvaluatorKind.SNAPSHOT]),
        )
        assert said(natively) == said(beside) == said(alone), seed
    assert any(freed) == often


def test_a_stream_at_a_pace_and_the_files_of_a_directory_are_read_as_columns_too(tmp_path: Path) -> None:
    paced = as_columns(Paced(lines([])), Dictionary())
    assert isinstance(cast(Paced, paced).stream, ColumnLines)
    (tmp_path / "a.nt").write_text("7\t<urn:a> <urn:p> <urn:b> .\n")
    files = as_columns(Directory(tmp_path, TimedLines.file), Dictionary())
    (batch,) = files.batches()
    assert isinstance(batch, Columns)
    assert batch.times.tolist() == [7]
