"""Every accepted query of tests/cases on both evaluators, over streams, graphs and sources made of its own patterns."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from evaluators import said
from pyoxigraph import Literal, NamedNode, Quad, Triple
from terms import in_default_graph

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.native.native_plan import plan_of
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind, NotNativeError
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import DEFAULTS, MaintenanceSettings
from freshkeeper.maintenance.query.model import Query, WindowKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.syntax.tree import Element, TriplePattern, WindowBlock
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.policies.registry import make

CASES = Path(__file__).parents[3] / "cases" / "query" / "accepted"
FILES = sorted(path for path in CASES.iterdir() if path.suffix != ".txt")
SUBJECTS = [NamedNode(f"urn:{name}") for name in "ab"]
OBJECTS: list[NamedNode | Literal] = [*SUBJECTS, *SUBJECTS, Literal(1), Literal(7)]


def triples(group: Sequence[Element], lots: random.Random) -> Iterator[Triple]:
    """One for each triple pattern of a group, names and values in place of variables."""
    for element in (inner for outer in group for inner in outer.walk()):
        for s, p, o in element.triples if isinstance(element, TriplePattern) else ():
            first, last = s if isinstance(s, NamedNode) else lots.choice(SUBJECTS), lots.choice(OBJECTS)
            predicates = sorted(element.predicates) or ["urn:p"]
            predicate = p if isinstance(p, NamedNode) else NamedNode(lots.choice(predicates))
            yield Triple(first, predicate, o if isinstance(o, NamedNode | Literal) else last)


def drawn(group: Sequence[Element], lots: random.Random, rounds: int) -> list[Triple]:
    """So many for each pattern."""
    return [triple for _ in range(rounds) for triple in triples(group, lots)]


def stream(query: Query, lots: random.Random) -> list[tuple[int, Triple]]:
    """Elements over twice its longest window, several to its shortest one."""
    ranges = [window.range or 1 for window in query.windows if window.kind is WindowKind.TIME] or [2_000]
    step = min(ranges) // 4
    times = range(0, 2 * max(ranges) + max(window.lag for window in query.windows), step)[:400]
    blocks = [inner for outer in query.group for inner in outer.walk() if isinstance(inner, WindowBlock)]
    found: list[Triple] = []
    while len(found) < len(times):
        found += drawn(blocks or query.group, lots, 1)
    return [(time, triple) for time, triple in zip(times, found, strict=False)]


def answered(query: Query, kind: EvaluatorKind, seed: str) -> list[Result]:
    """Everything that it answers in a world of this seed."""
    lots = random.Random(seed)
    graphs = {
        name: quads(drawn(query.group, lots, 10))
        for name in (*query.dataset.default_graphs, *query.dataset.named_graphs)
    }
    if not query.dataset.default_graphs and not query.dataset.merged_windows:
        graphs[""] = quads(drawn(query.group, lots, 10))
    sources = {
        service.endpoint: Source.embedded(quads(drawn(query.group, lots, 8)), volatile=service.predicates[-1:])
        for service in query.services
        if service.endpoint is not None
    }
    names = dict.fromkeys(window.stream for window in query.windows)
    streams = {name: stream(query, lots) for name in names}
    settings = MaintenanceSettings(lambda case: make(DEFAULTS[case]), BudgetRule.of(2))
    built = build(query, graphs, sources=sources, settings=settings, evaluator=kind)
    return list(run(built, streams)) if streams else [built.once()]


def quads(found: Sequence[Triple]) -> list[Quad]:
    """Triples of a graph."""
    return [in_default_graph(triple) for triple in found]


@pytest.fixture(scope="module")
def native() -> Iterator[dict[str, int]]:
    """How many answers the queries had that have a plan; printed at the end."""
    found: dict[str, int] = {}
    yield found
    print(f"\n{len(found)} of {len(FILES)} queries of tests/cases have a plan: {found}")


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_both_evaluators_answer_a_case_alike(file: Path, native: dict[str, int]) -> None:
    query = parse(file.read_text(encoding="utf-8"))
    try:
        plan_of(query)
    except NotNativeError as reason:
        pytest.skip(f"left to the snapshot evaluator: {reason.within(query)}")
    for seed in range(3):
        expected = answered(query, EvaluatorKind.SNAPSHOT, f"{file.name} {seed}")
        assert said(answered(query, EvaluatorKind.NATIVE, f"{file.name} {seed}")) == said(expected)
        native[file.name] = native.get(file.name, 0) + sum(len(result.answers) for result in expected)
