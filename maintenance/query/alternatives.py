"""p|q as SPARQL has it, once for each way: pyoxigraph gives what both lead to once.

    ?x :p|:q ?y                 { ?x :p ?y } UNION { ?x :q ?y }
    _:b :p|:q ?y . ?x :r _:b    { SELECT ?x ?y { { ?b :p ?y } UNION { ?b :q ?y } . ?x :r ?b } }

A label of a blank node cannot stand in two groups, and so becomes a variable, which a sub-query hides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import Token, tokenize
from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    Minus,
    Path,
    Position,
    Quoted,
    TriplePattern,
    blank_variable,
)

NOTHING = "freshkeeper_nothing"
"""What is never bound."""
BRANCHES = 50
"""A path with more alternatives stays as it is."""


def apart(group: Sequence[Element], graph: str, star: bool) -> Iterator[Edit]:
    """Alternative paths as alternative patterns; the triples of a subject are written one by one for it.

    `graph` is what ranges over the group's graphs, and `star` says that the query shows all its variables.
    """
    joined = _joined(group)
    hidden = _Hidden.of(joined, graph, star)
    for start, triples in groupby((e for e in group if isinstance(e, TriplePattern)), key=lambda triple: triple.start):
        sentence = list(triples)
        if any(triple in joined and triple not in hidden.elements for triple in sentence):
            continue
        written = [_alternatives(triple) for triple in sentence]
        if not hidden.elements.isdisjoint(sentence) or 1 < max(map(len, written)) <= BRANCHES:
            pairs = zip(sentence, written, strict=True)
            texts = [hidden.text(each) if each in hidden.elements else _united(ways) for each, ways in pairs]
            yield Edit(start, sentence[-1].end, " . ".join(texts))


def inseparable(group: Sequence[Element], star: bool) -> bool:
    """Whether some p|q stays: too many of them, or beside blank nodes that no sub-query can hide."""
    joined = _joined(group)
    return len(joined) > len(_Hidden.of(joined, "", star).elements) or any(
        len(_alternatives(element)) > BRANCHES
        if isinstance(element, TriplePattern)
        else not isinstance(element, Filter | Bind | Minus) and any(inseparable(part, star) for part in element.parts)
        for element in group
    )


@dataclass(frozen=True)
class _Hidden:
    """The triple patterns that share blank nodes with alternatives, for a sub-query in the place of the first."""

    elements: frozenset[TriplePattern]
    first: TriplePattern | None
    graph: str

    @classmethod
    def of(cls, found: Sequence[TriplePattern], graph: str, star: bool) -> "_Hidden":
        """These, where a sub-query can take them; one that shows nothing has a column of its own."""
        terms = [term for e in found for triple in e.triples for term in triple]
        fits = any(map(_is_variable, terms)) or bool(found and not star)
        fits = fits and all(len(_ways(term)) <= BRANCHES for term in terms)
        fits = fits and not any(isinstance(term, Quoted) and "_:" in term.text for term in terms)
        return cls(frozenset(found), found[0], graph) if fits else cls(frozenset(), None, graph)

    def text(self, element: TriplePattern) -> str:
        """What stands in the place of one of them."""
        return self._query if element is self.first else "{}"

    @cached_property
    def _query(self) -> str:
        triples = [triple for e in sorted(self.elements, key=lambda e: e.first) for triple in e.triples]
        names = sorted({f"?{term}" for triple in triples for term in triple if _is_variable(term)})
        written = " . ".join(_united([f"{_written(s)} {way} {_written(o)}" for way in _ways(p)]) for s, p, o in triples)
        shown = " ".join(dict.fromkeys([self.graph, *names] if self.graph else names or [f"?{NOTHING}"]))
        return f"{{ SELECT {shown} {{ {written} }} }}"


def _joined(group: Sequence[Element]) -> list[TriplePattern]:
    """The triple patterns with alternatives of blank nodes, and those that share blank nodes with them."""
    triples = [e for e in group if isinstance(e, TriplePattern)]
    if not any(item.is_mark("|") for e in triples for item in e.items):
        return []
    blanks = {e: frozenset(term for triple in e.triples for term in triple if _is_blank(term)) for e in triples}
    found: set[TriplePattern] = set()
    reached = frozenset().union(
        *((s, o) for e in triples for s, p, o in e.triples if len(_ways(p)) > 1 and (_is_blank(s) or _is_blank(o)))
    )
    while more := [e for e in triples if e not in found and not blanks[e].isdisjoint(reached)]:
        found.update(more)
        reached = reached.union(*(blanks[e] for e in more))
    return [e for e in triples if e in found]


def _alternatives(triple: TriplePattern) -> list[str]:
    """The triple patterns that a triple pattern with a path stands for; of too many no more than show it."""
    if not triple.path:
        return [triple.text]
    subject, _, value = (triple.source.text(*span) for span in triple.spans)
    branches = _Path(triple.source.items[slice(*triple.spans[1])]).alternatives()
    return [f"{subject} {branch} {value}" for branch in branches]


def _ways(term: Position) -> list[str]:
    """A term as it is written, a path as the paths that it stands for."""
    return _Path(tokenize(term.text).items).alternatives() if isinstance(term, Path) else [_written(term)]


def _written(term: Position) -> str:
    if isinstance(term, str):
        return f"?{blank_variable(term) if _is_blank(term) else term}"
    return term.text if isinstance(term, Path | Quoted) else str(term)


def _united(patterns: Sequence[str]) -> str:
    return patterns[0] if len(patterns) == 1 else " UNION ".join(f"{{ {one} }}" for one in patterns)


def _is_blank(term: Position) -> bool:
    return isinstance(term, str) and term.startswith("_:")


def _is_variable(term: Position) -> bool:
    return isinstance(term, str) and not _is_blank(term)


@dataclass
class _Path:
    """A property path, read as the paths without alternatives that it stands for; what repeats stays whole."""

    items: Sequence[Token]
    index: int = 0

    def alternatives(self) -> list[str]:
        """Read a|b: the paths that it may take, as SPARQL."""
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
