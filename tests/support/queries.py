"""Streams of a few elements, and what a query answers over them."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyoxigraph as ox

from freshkeeper.maintenance.base.errors import EndpointError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.sources.sources import EmbeddedSource, Source
from freshkeeper.maintenance.sources.transport import Bound, Transport
from freshkeeper.maintenance.streams.batch import Elements
from freshkeeper.policies.registry import make

E = "http://e/"
Written = Iterable[tuple[int, str]]


def triples(turtle: str) -> list[ox.Triple]:
    """Triples as people write them, with `:` for http://e/."""
    return [quad.triple for quad in ox.parse(f"PREFIX : <{E}> {turtle} .", format=ox.RdfFormat.TURTLE)]


def elements(written: Written) -> Elements:
    """A stream of (time, triples in Turtle)."""
    return Elements([(time, triple) for time, text in written for triple in triples(text)], size=3)


def answer(
    text: str,
    streams: Mapping[str, Written] | Written,
    graphs: Mapping[str, str] | None = None,
    drain: bool = False,
    delay: int = 0,
    start: int = 0,
) -> list[Result]:
    """Every result of a query over one stream `:s`, or over several by name."""
    given = streams if isinstance(streams, Mapping) else {"s": streams}
    static = {(E + name if name else ""): quads(text) for name, text in (graphs or {}).items()}
    engine = Engine([build(parse(f"PREFIX : <{E}> {text}"), static, start)], drain)
    for name, written in given.items():
        engine.listen(E + name, elements(written), delay)
    return list(engine.run())


def quads(turtle: str) -> list[ox.Quad]:
    """The quads of a static graph."""
    return [ox.Quad(t.subject, t.predicate, t.object) for t in triples(turtle)]


def shown(term: object) -> str:
    """A term in few letters."""
    return str(term.value).removeprefix(E) if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def written(result: Result) -> list[str]:
    """Answers in few letters, with blanks between their terms."""
    return [
        " ".join("-" if term is None else shown(term) for term in a) if not isinstance(a, bool) else str(a)
        for a in result.answers
    ]


def by_time(results: Iterable[Result]) -> dict[int, list[str]]:
    """What every evaluation answers, sorted."""
    return {result.t: sorted(written(result)) for result in results}


BLOG = """
:jazz :discussedBy :ann, :bob . :rock :discussedBy :bob, :cyd . :folk :discussedBy :dan .
:ann :followers 10 . :bob :followers 20 . :cyd :followers 30 .
:ann :name "Ann" . :bob :name "Bob" . :cyd :name "Cyd" . :dan :name "Dan"
"""
CHANGES = [(1500, ":bob :followers 21"), (2500, ":ann :followers 11"), (2500, ":bob :followers 22")]
POSTS = [(1000, ":p1 :topic :jazz"), (2000, ":p2 :topic :rock"), (3000, ":p3 :topic :jazz"), (4000, ":p4 :topic :none")]


class Blog(EmbeddedSource):
    """A source that does not answer at some instants, or when it is asked for some topic."""

    failing: tuple[int | str, ...] = ()

    def __call__(self, query: str, now: int) -> list[Bound]:
        """Answer or fail."""
        found = super().__call__(query, now)
        if now in self.failing or any(isinstance(word, str) and word in query for word in self.failing):
            raise EndpointError("the blog is away")
        return found


class World:
    """The blog, a query over it, and what came of it."""

    def __init__(self, text: str, **options: Any) -> None:
        """Run the query over the posts."""
        changes = options.get("changes", CHANGES)
        self.blog = Blog(quads(BLOG), [(at, quad) for at, text_ in changes for quad in quads(text_)])
        self.blog.failing = options.get("failing", ())
        volatile = options.get("volatile", (f"{E}followers",))
        self.seen: list[object] = []
        policy = options.get("policy", "lru")
        settings = MaintenanceSettings(
            lambda _: policy() if callable(policy) else make(policy),
            BudgetRule.of(options.get("budget", 100)),
            fetch=Fetch(options.get("fetch", "view")),
            edges=options.get("edges", False),
            observe=lambda _, __, evaluation: self.seen.append(evaluation),
        )
        sources = {f"{E}blog": Source(Transport.in_process(self.blog), volatile, options.get("price", Price()))}
        kind = EvaluatorKind(options.get("evaluator", "auto"))
        query = build(parse(f"PREFIX : <{E}> {text}"), sources=sources, settings=settings, evaluator=kind)
        engine = Engine([query], drain=options.get("drain", False))
        engine.listen(f"{E}s", elements(options.get("posts", POSTS)))
        self.results: list[Result] = list(engine.run())

    @property
    def answers(self) -> dict[int, list[str]]:
        """Answers by instant, in few letters."""
        return by_time(self.results)

    def written(self, result: Result) -> list[str]:
        """The answers of one evaluation in their order, in few letters."""
        return written(result)

    def fresh(self, t: int) -> dict[str, tuple[float, int | None]]:
        """Freshness and age of the answers of an instant, by their first term."""
        result = next(r for r in self.results if r.t == t)
        return {
            shown(row[0]) if isinstance(row, tuple) else str(row): (
                round(result.fresh(n).probability, 3),
                result.fresh(n).age,
            )
            for n, row in enumerate(result.answers)
        }
