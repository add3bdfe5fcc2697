"""Streams of a few elements, and what a query answers over them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyoxigraph as ox
import pytest

from maintenance.engine.answers import Result
from maintenance.engine.continuous import ContinuousQuery
from maintenance.engine.engine import Engine
from maintenance.query import parse
from maintenance.streams.batch import Elements

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
    engine = Engine([ContinuousQuery(parse(f"PREFIX : <{E}> {text}"), static, start)], drain)
    for name, written in given.items():
        engine.listen(E + name, elements(written), delay)
    return list(engine.run())


def quads(turtle: str) -> list[ox.Quad]:
    """The quads of a static graph."""
    return [ox.Quad(t.subject, t.predicate, t.object) for t in triples(turtle)]


def shown(term: Any) -> str:
    """A term in few letters."""
    return str(term.value).removeprefix(E) if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def by_time(results: Iterable[Result]) -> dict[int, list[str]]:
    """What every evaluation answers, sorted, each answer's terms with blanks between."""
    return {
        result.t: sorted(
            " ".join("-" if term is None else shown(term) for term in a) if not isinstance(a, bool) else str(a)
            for a in result.answers
        )
        for result in results
    }


@pytest.fixture
def ask() -> Callable[..., dict[int, list[str]]]:
    """Answers by instant."""
    return lambda *given, **more: by_time(answer(*given, **more))


@pytest.fixture
def run_query() -> Callable[..., list[Result]]:
    """Results."""
    return answer
