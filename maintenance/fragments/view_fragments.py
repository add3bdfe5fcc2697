"""What views hold, as fragments that say how long it is believed to hold: one budgeted process feeds many clients.

The triples are those that the solutions in a view are made of. Of the static part of a SERVICE pattern they have no
time, for it is fetched once and kept. Those of the dynamic part hold until their copy is no longer as likely fresh as
is asked (`sure`), and until the next evaluation at least, because nobody knows better before; how likely it is now is
said beside the time. Patterns in OPTIONAL, UNION and such are left out: which of them holds, solutions do not tell.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from pyoxigraph import Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.evaluation import Evaluation
from freshkeeper.maintenance.fragments.annotation_style import Held, Style
from freshkeeper.maintenance.fragments.page_writer import Place
from freshkeeper.maintenance.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.fragments.served_data import Served
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.query.service_split import Split
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.query.syntax.tree import Group, Position, Source, TriplePattern
from freshkeeper.maintenance.service.pattern_endpoint import PatternEndpoint
from freshkeeper.maintenance.service_join.edge_refreshes import KeepingEdges
from freshkeeper.policies.arrays import Floats, Ints
from freshkeeper.policies.base import NEVER, Kind

FRESHNESS = NamedNode("urn:freshkeeper:freshness")
"""How likely a triple holds still, said of its mark."""
COPY = "urn:freshkeeper:copy:"
AHEAD = 64
"""Evaluations over which it is looked how long a copy holds."""
LIVE = 3_600_000
"""Milliseconds by which event time may differ from the clock and be taken for it."""
Pattern = tuple[Position, Position, Position]


@dataclass(frozen=True)
class Believed:
    """A triple of a copy, and what is believed of it."""

    held: Held
    freshness: float


@dataclass(eq=False)
class ViewFragments:
    """What all views of a run hold, as it was after the last evaluation of each."""

    style: Style = field(default_factory=Style)
    base: str = ""
    sure: float = 0.9
    """the probability with which a triple is to hold until the time that is told"""
    wall: Callable[[], float] = time.time
    holding: None = None
    _parts: dict[str, "_Templates"] = field(default_factory=dict)
    _views: dict[str, tuple[Sequence[Triple], Sequence[Believed]]] = field(default_factory=dict)
    _version: int = 0
    _built: tuple[int, Served] = field(default_factory=lambda: (0, Served([])))

    def observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        """One evaluation of a view, from the thread that evaluates."""
        endpoint = manager.endpoint.endpoint if isinstance(manager.endpoint, KeepingEdges) else manager.endpoint
        if isinstance(endpoint, PatternEndpoint):
            templates = self._parts.get(source)
            if templates is None or templates.split is not endpoint.split:
                templates = self._parts[source] = _Templates(endpoint.split)
            self._views[source] = self._held(manager, endpoint, templates, evaluation.record.t_ms)
            self._version += 1

    def version(self, now: int) -> int:
        """How many evaluations there were."""
        del now
        return self._version

    def slice(self, pattern: QuadPattern, first: int, most: int, now: int) -> tuple[Sequence[Quad], int]:
        """As it was after the last evaluation; made when somebody asks."""
        version, served = self._built
        if version != self._version:
            version, views = self._version, list(self._views.values())
            served = Served(self._quads(views))
            self._built = version, served
        return served.slice(pattern, first, most, now)

    def until(self, pattern: QuadPattern, now: int) -> None:
        """Nobody knows when the next evaluation is."""
        del pattern, now

    def _held(
        self, manager: Manager, endpoint: PatternEndpoint, templates: "_Templates", now: int
    ) -> tuple[Sequence[Triple], Sequence[Believed]]:
        view, graph = manager.view, manager.graph
        slots = np.flatnonzero((view.last_refresh != NEVER) & (view.kinds[: view.last_refresh.size] == Kind.COPY))
        step = 1_000 if manager.window.count else manager.window.step
        instants = now + step * np.arange(AHEAD)
        kept = manager.model.beliefs(instants, view.last_refresh[slots], False, slots).kept
        clock = int(self.wall() * 1000)
        moved = 0 if abs(clock - now) < LIVE else clock - now
        until = dict(
            zip(
                slots.tolist(),
                (holds_until(kept, self.sure, instants, clock - moved + step) + moved).tolist(),
                strict=True,
            )
        )
        fresh = dict(zip(slots.tolist(), kept[:, 0].tolist(), strict=True))
        since = view.last_refresh + moved
        variables = endpoint.variables
        static, dynamic = dict[Triple, None](), dict[Triple, Believed]()
        for sn, slot in list(view.sns.numbers.items()):
            if not isinstance(sn, tuple):
                continue
            for sr in graph.by_sn.of(slot).tolist():
                if sr not in until:
                    continue
                for row in endpoint.rows(sn, view.srs.keys[sr], view.values[sr]):
                    known = dict(zip(variables, row, strict=False))
                    static.update(dict.fromkeys(filled(templates.static, known)))
                    for triple in filled(templates.dynamic, known):
                        one = Believed(Held(triple, int(since[sr]), until[sr]), fresh[sr])
                        if triple not in dynamic or dynamic[triple].held.until > one.held.until:
                            dynamic[triple] = one
        return list(static), list(dynamic.values())

    def _quads(self, views: Sequence[tuple[Sequence[Triple], Sequence[Believed]]]) -> Iterator[Quad]:
        for static, dynamic in views:
            yield from (Quad(triple.subject, triple.predicate, triple.object) for triple in static)
            for one in dynamic:
                name = COPY + hashlib.sha256(str(one.held.triple).encode()).hexdigest()[:16]
                yield from self.style.written(one.held, name, self._address)
                mark = self.style.mark(one.held.triple, name, self._address)
                yield Quad(mark, FRESHNESS, Literal(round(one.freshness, 4)))

    def _address(self, pattern: QuadPattern) -> str:
        return Place(self.base, pattern, 1, 1, 0).fragment


def holds_until(kept: Floats, sure: float, instants: Ints, least: int) -> Ints:
    """For each copy the last of the instants up to which it is as likely fresh as asked, and not before `least`."""
    doubtful = kept < sure
    last = np.where(doubtful.any(axis=1), np.maximum(doubtful.argmax(axis=1) - 1, 0), instants.size - 1)
    found: Ints = np.maximum(instants[last], least)
    return found


def filled(patterns: Sequence[Pattern], known: Mapping[str, object]) -> Iterator[Triple]:
    """The triples of patterns whose variables are all known."""
    for pattern in patterns:
        terms = [known.get(term) if isinstance(term, str) else term for term in pattern]
        subject, predicate, value = terms
        if (
            isinstance(predicate, NamedNode)
            and subject is not None
            and value is not None
            and not isinstance(subject, Literal)
        ):
            yield Triple(subject, predicate, value)  # type: ignore[arg-type]


@dataclass(eq=False)
class _Templates:
    """The triple patterns of a SERVICE pattern, of its static part and of its dynamic one."""

    split: Split

    @cached_property
    def static(self) -> list[Pattern]:
        """Of what is fetched once."""
        return self._patterns(self.split.static)

    @cached_property
    def dynamic(self) -> list[Pattern]:
        """Of what is refreshed."""
        return self._patterns(self.split.dynamic)

    def _patterns(self, text: str) -> list[Pattern]:
        query = f"{self.split.prologue.text} SELECT * {{ {text} }}"
        tokens = tokenize(query)
        elements = list(read_query(Source(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE))).inner)
        found = list[Pattern]()
        while elements:
            element = elements.pop(0)
            if isinstance(element, TriplePattern):
                found += [
                    triple
                    for triple in element.triples
                    if all(isinstance(t, NamedNode | Literal | str) for t in triple)
                ]
            elif isinstance(element, Group):
                elements += [inner for part in element.parts for inner in part]
        return found
