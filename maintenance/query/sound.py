"""A SPARQL text as pyoxigraph gets it right: what it evaluates otherwise than SPARQL says is written in other words.

Its joins hand what they know on to a group that is joined next, also where the group shows that it knows: in the
OPTIONAL of a group, and in FILTER EXISTS. Nothing is handed on to a sub-query, so such a group becomes one.

    ?x :p ?n OPTIONAL { BIND(?n AS ?k) } ?x :q ?n    { SELECT * { ?x :p ?n OPTIONAL { BIND(?n AS ?k) } } } ?x :q ?n

It gives the solutions of p|q once, SPARQL once for p and once for q.

    ?x :p|:q ?y                                      { ?x :p ?y } UNION { ?x :q ?y }
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens, tokenize
from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    Graph,
    Group,
    Minus,
    Optional,
    Select,
    Service,
    Source,
    TriplePattern,
    Union,
    Values,
    everything,
)

SUSPECT = re.compile(r"\bOPTIONAL\b|\bEXISTS\b|\|", re.IGNORECASE)
JOINED = (TriplePattern, Values, Group, Union, Select, Service)
CLOSED = (Filter, Bind, Service)
"""What has groups inside that stay as they are."""
BRANCHES = 50
"""A path with more alternatives stays as it is."""


@lru_cache(maxsize=1_000)
def sound(sparql: str) -> str:
    """The text for pyoxigraph; it means the same as the text that is given."""
    if not SUSPECT.search(sparql):
        return sparql
    tree = read_query(Source(tokenize(sparql), Prologue()))
    weaver = Weaver(sparql)
    weaver.copy(0, len(sparql), sorted(_Guard(tree.source.tokens).edits(tree.inner, tree), key=lambda edit: edit[:2]))
    return weaver.done().text


@dataclass(frozen=True)
class _Guard:
    tokens: Tokens

    def edits(self, group: Sequence[Element], holder: Element, graph: str = "") -> Iterator[Edit]:
        """What must be written otherwise in a group and the groups in it; `graph` is what ranges over its graphs."""
        for element in group:
            if not isinstance(element, CLOSED):
                inside = graph
                if isinstance(element, Graph):
                    inside = f"?{element.name.text[1:]}" if element.iri is None else ""
                for part in element.parts:
                    yield from self.edits(part, element, inside)
        yield from _apart(group)
        peeks = not isinstance(holder, Select | Optional | Minus) and any(map(self._peeks, group))
        if peeks:
            yield _opened(group, graph)
        yield from _shielded(group, holder, graph)
        if peeks:
            yield Edit(group[-1].end, group[-1].end, " } }")

    def _peeks(self, element: Element) -> bool:
        """Whether it is an EXISTS that looks at a variable which the query has elsewhere too."""
        inside = everything(element.inner)
        return isinstance(element, Filter) and any(
            token.kind is Kind.VAR and token.text[1:] in inside and not element.start <= token.start < element.end
            for token in self.tokens.items
        )


def _opened(group: Sequence[Element], graph: str) -> Edit:
    """The beginning of a sub-query that shows all of a group; what ranges over its graphs is hidden from `*`."""
    names = sorted(f"?{name}" for name in frozenset().union(*(e.bound for e in group)) if not name.startswith("_:"))
    shown = " ".join(dict.fromkeys([graph, *names])) if graph else "*"
    return Edit(group[0].start, group[0].start, f"{{ SELECT {shown} {{ ")


def _shielded(group: Sequence[Element], holder: Element, graph: str) -> Iterator[Edit]:
    """Sub-queries that end with what would show what comes from outside; FILTERs go behind them."""
    showing = [
        n
        for n, element in enumerate(group)
        if _shows(element)
        and (not isinstance(holder, Select) or any(isinstance(later, JOINED) for later in group[n + 1 :]))
    ]
    yield from (_opened(group[: n + 1], graph) for n in reversed(showing))
    for n in showing:
        filters = [element for element in group[:n] if isinstance(element, Filter)] if n == showing[-1] else []
        yield from (Edit(element.start, element.end, "FILTER(true)") for element in filters)
        yield Edit(group[n].end, group[n].end, " ".join([" } }", *(element.text for element in filters)]))


def _shows(element: Element) -> bool:
    """Whether it is an OPTIONAL, or a BIND with EXISTS, that another solution from outside would change."""
    return (isinstance(element, Optional) and not _is_plain(element)) or (
        isinstance(element, Bind) and bool(element.parts)
    )


def _is_plain(optional: Element) -> bool:
    """Whether an OPTIONAL gives the same where more is bound than what stands before it."""
    return all(
        (isinstance(inner, Group | Union | Values | Service) and not isinstance(inner, Graph))
        or (isinstance(inner, TriplePattern) and not inner.path)
        or (isinstance(inner, Graph) and inner.name.kind is not Kind.VAR)
        or (isinstance(inner, Filter) and inner in optional.inner and not inner.parts)
        for element in optional.inner
        for inner in (element.walk() if not isinstance(element, Service) else [element])
    )


def inseparable(group: Sequence[Element]) -> bool:
    """Whether some p|q stays: where a blank node label would be in two groups, in [ ], or too many of them."""
    labelled = _labelled(group)
    return any(
        len(_alternatives(element)) > (1 if labelled else BRANCHES) or _in_brackets(element)
        if isinstance(element, TriplePattern)
        else not isinstance(element, Filter | Bind | Minus) and any(map(inseparable, element.parts))
        for element in group
    )


def _in_brackets(triple: TriplePattern) -> bool:
    """Whether a p|q stands in square brackets."""
    depth = 0
    for item in triple.items:
        depth += item.is_mark("[") - item.is_mark("]")
        if depth and item.is_mark("|"):
            return True
    return False


def _labelled(group: Sequence[Element]) -> bool:
    """Whether a blank node label would come into two groups: it is in several triples, or beside alternatives."""
    labels = Counter(
        name
        for e in group
        if isinstance(e, TriplePattern)
        for name in set(e.variables)
        if name.startswith("_:")
        for _ in _alternatives(e)
    )
    return any(times > 1 for times in labels.values())


def _apart(group: Sequence[Element]) -> Iterator[Edit]:
    """Alternative paths as alternative patterns; the triples of a subject are written one by one for it."""
    if _labelled(group):
        return
    for start, triples in groupby((e for e in group if isinstance(e, TriplePattern)), key=lambda triple: triple.start):
        sentence = list(triples)
        written = [_alternatives(triple) for triple in sentence]
        if 1 < max(map(len, written)) <= BRANCHES:
            texts = (each[0] if len(each) == 1 else " UNION ".join(f"{{ {one} }}" for one in each) for each in written)
            yield Edit(start, sentence[-1].end, " . ".join(texts))


def _alternatives(triple: TriplePattern) -> list[str]:
    """The triple patterns that a triple pattern with a path stands for; of too many no more than show it."""
    if not triple.path:
        return [triple.text]
    subject, _, value = (triple.source.text(*span) for span in triple.spans)
    branches = _Path(triple.source.items[slice(*triple.spans[1])]).alternatives()
    return [f"{subject} {branch} {value}" for branch in branches]


@dataclass
class _Path:
    """A property path, read as the paths without alternatives that it stands for; what repeats stays whole."""

    items: Sequence[Token]
    index: int = 0

    def alternatives(self) -> list[str]:
        """a|b."""
        found = self._sequence()
        while self._took("|"):
            found += self._sequence()
        return found

    def _sequence(self) -> list[str]:
        found = self._step()
        while self._took("/"):
            following = self._step()
            found = [f"{before}/{after}" for before in found for after in following][: BRANCHES + 1]
        return found

    def _step(self) -> list[str]:
        inverse, found = self._took("^"), self._primary()
        if self.index < len(self.items) and self.items[self.index].is_mark("*", "+", "?"):
            found = [f"({'|'.join(found)}){self._take().text}"]
        return [f"^({each})" for each in found] if inverse else found

    def _primary(self) -> list[str]:
        if self._took("!"):
            return self._others()
        if not self._took("("):
            return [self._take().text]
        found = self.alternatives()
        self._took(")")
        return found

    def _others(self) -> list[str]:
        """!(a|^b): any other predicate forwards, and any other one backwards."""
        ways: tuple[list[str], list[str]] = ([], [])
        several = self._took("(")
        while not self._took(")"):
            ways[self._took("^")].append(self._take().text)
            self._took("|")
            if not several:
                break
        there, back = ("|".join(way) for way in ways)
        return [*([f"!({there})"] if there or not back else []), *([f"^(!({back}))"] if back else [])]

    def _took(self, mark: str) -> bool:
        found = self.index < len(self.items) and self.items[self.index].is_mark(mark)
        self.index += found
        return found

    def _take(self) -> Token:
        self.index += 1
        return self.items[self.index - 1]
