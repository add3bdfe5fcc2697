"""SERVICE from the view: file to NDJSON on both evaluators, and the writer alone.

python benchmarks/service.py          about a minute

500 topics with three users each, a window of 4 s that moves every second, a budget of 20 requests an evaluation.
"""

import gc
import random
import tempfile
import time
from pathlib import Path

import pyoxigraph as ox
from stopwatch import ratios, show

from freshkeeper import BudgetRule, Source
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.outputs.result_sink import ResultSink
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.policies.registry import make

TOPICS, USERS, SECONDS = 500, 1_000, 60
QUERY = """PREFIX : <urn:>
SELECT ?post ?topic ?user ?n FROM NAMED WINDOW :posts ON :stream [RANGE PT4S STEP PT1S]
{ WINDOW :posts { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n } }"""


def background() -> list[ox.Quad]:
    """Who discusses what, and how many follow each."""
    draw = random.Random(1)
    lines = [f"<urn:t{t}> <urn:discussedBy> <urn:u{u}> ." for t in range(TOPICS) for u in draw.sample(range(USERS), 3)]
    lines += [f'<urn:u{u}> <urn:followers> "{draw.randrange(10_000)}" .' for u in range(USERS)]
    return list(ox.parse("\n".join(lines), format=ox.RdfFormat.N_TRIPLES))


def posts(path: Path, rate: int, seconds: int) -> int:
    """So many posts a second, each new; returns how many."""
    draw = random.Random(2)
    with path.open("w", encoding="ascii") as file:
        for n in range(rate * seconds):
            file.write(f"{n * 1000 // rate}\t<urn:p{n}> <urn:topic> <urn:t{draw.randrange(TOPICS)}> .\n")
    return rate * seconds


def timed(kind: EvaluatorKind, path: Path, out: Path, quads: list[ox.Quad]) -> tuple[float, int, list[Result]]:
    """CPU seconds, answers, and the last few results."""
    sources = {"urn:blog": Source.embedded(quads, volatile=["urn:followers"])}
    settings = MaintenanceSettings(lambda _: make("plan"), BudgetRule.of(20))
    query = build(parse(QUERY), sources=sources, settings=settings, evaluator=kind)
    answers = 0
    lasts: list[Result] = []
    gc.collect()  # what the run before has left is not this one's
    began = time.process_time()
    with out.open("w", encoding="utf-8") as file:
        delivery = ResultSink.begin(file, "ndjson")
        for result in run(query, {"urn:stream": TimedLines.file(path)}):
            answers += len(result.answers)
            delivery.put(result)
            lasts = [*lasts[-4:], result]
    return time.process_time() - began, answers, lasts


def writing(results: list[Result], out: Path) -> float:
    """Answers a CPU second, written again by a writer that knows their terms."""
    with out.open("w", encoding="utf-8") as file:
        delivery = ResultSink.begin(file, "ndjson")
        for result in results:
            delivery.put(result)
        began = time.process_time()
        for result in results:
            delivery.put(result)
    return sum(len(result.answers) for result in results) / (time.process_time() - began)


def main() -> None:
    """Measure and print."""
    quads = background()
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "posts.nq", Path(folder) / "answers.ndjson"
        few = posts(path, 500, SECONDS)
        slow, said, _ = timed(EvaluatorKind.SNAPSHOT, path, out, quads)
        timed(EvaluatorKind.NATIVE, path, out, quads)  # what is compiled is compiled then
        same, also, _ = timed(EvaluatorKind.NATIVE, path, out, quads)
        assert said == also
        many = posts(path, 10_000, SECONDS)
        fast, answers, lasts = timed(EvaluatorKind.NATIVE, path, out, quads)
        written = writing(lasts, out)
    rows = [
        ["snapshot, 500 posts/s", f"{few / slow:,.0f} triples/s", f"{said / slow:,.0f} answers/s"],
        ["native, 500 posts/s", f"{few / same:,.0f} triples/s", f"{also / same:,.0f} answers/s"],
        ["native, 10,000 posts/s", f"{many / fast:,.0f} triples/s", f"{answers / fast:,.0f} answers/s"],
        ["the writer alone", "", f"{written:,.0f} answers/s"],
    ]
    show("SERVICE from the view, file to NDJSON, CPU time", ["what", "", ""], rows)
    ratios(
        {
            "native_over_snapshot": slow / same,
            "native_over_snapshot_answers": (answers / fast) / (said / slow),
            "writer_over_native": written / (answers / fast),
        }
    )


if __name__ == "__main__":
    main()
