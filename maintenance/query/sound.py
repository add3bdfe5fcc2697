"""A SPARQL text as pyoxigraph gets it right: what it evaluates otherwise than SPARQL says is written in other words.

Its joins hand what they know on to a group that is joined next, also where the group shows that it knows: in the
OPTIONAL of a group, and in FILTER EXISTS. Nothing is handed on to a sub-query, so such a group becomes one.

    ?x :p ?n OPTIONAL { BIND(?n AS ?k) } ?x :q ?n    { SELECT * { ?x :p ?n OPTIONAL { BIND(?n AS ?k) } } } ?x :q ?n

It gives the solutions of p|q once, SPARQL once for p and once for q.

    ?x :p|:q ?y                                      { ?x :p ?y } UNION { ?x :q ?y }
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from freshkeeper.maintenance.query.federation.bound_variables import everything
from freshkeeper.maintenance.query.syntax.patterns import Element, read_group
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens, tokenize

SUSPECT = re.compile(r"\bOPTIONAL\b|\bEXISTS\b|\|", re.IGNORECASE)
JOINED = ("TRIPLE", "GRAPH", "VALUES", "GROUP", "UNION", "SELECT", "SERVICE")
CLOSED = ("FILTER", "BIND", "SERVICE")
"""What has groups inside that stay as they are."""
BRANCHES = 50
"""A path with more alternatives stays as it is."""


@lru_cache(maxsize=1_000)
def sound(sparql: str) -> str:
    """The text for pyoxigraph; it means the same as the text that is given."""
    if not SUSPECT.search(sparql):
        return sparql
    tokens = tokenize(sparql)
    opening = _pattern(tokens)
    if opening is None:
        return sparql
    edits = [*_Guard(tokens).edits(read_group(tokens, Prologue(), opening), "SELECT")]
    weaver = Weaver(sparql)
    weaver.copy(0, len(sparql), sorted(edits, key=lambda edit: edit[:2]))
    return weaver.done().text


def _pattern(tokens: Tokens) -> int | None:
    """The bracket that opens the pattern; a template and expressions come before it."""
    items, index = tokens.items, 0
    while index < len(items):
        if items[index].is_mark("{") and not items[index - 1].is_word("CONSTRUCT"):
            return index
        index = tokens.closing.get(index, index) + 1
    return None


@dataclass(frozen=True)
class _Guard:
    tokens: Tokens

    def edits(self, group: Sequence[Element], holder: str) -> Iterator[Edit]:
        """What must be written otherwise in a group and the groups in it."""
        for element in group:
            if element.kind not in CLOSED:
                for part in element.parts:
                    yield from self.edits(part, element.kind)
        yield from _apart(group)
        yield from _shielded(group, holder)
        if holder not in ("SELECT", "OPTIONAL", "MINUS") and any(map(self._peeks, group)):
            yield Edit(group[0].start, group[0].start, "{ SELECT * { ")
            yield Edit(group[-1].end, group[-1].end, " } }")

    def _peeks(self, element: Element) -> bool:
        """Whether it is an EXISTS that looks at a variable which the query has elsewhere too."""
        inside = everything(inner for part in element.parts for inner in part)
        return element.kind == "FILTER" and any(
            token.kind is Kind.VAR and token.text[1:] in inside and not element.start <= token.start < element.end
            for token in self.tokens.items
        )


def _shielded(group: Sequence[Element], holder: str) -> Iterator[Edit]:
    """Sub-queries that end with an OPTIONAL which would show what comes from outside; FILTERs go behind them."""
    showing = [
        n
        for n, element in enumerate(group)
        if element.kind == "OPTIONAL"
        and not _is_plain(element)
        and (holder != "SELECT" or any(later.kind in JOINED for later in group[n + 1 :]))
    ]
    for n in showing:
        filters = [element for element in group[:n] if element.kind == "FILTER"] if n == showing[-1] else []
        yield from (Edit(element.start, element.end, "") for element in filters)
        yield Edit(group[0].start, group[0].start, "{ SELECT * { ")
        yield Edit(group[n].end, group[n].end, " ".join([" } }", *(element.text for element in filters)]))


def _is_plain(optional: Element) -> bool:
    """Whether an OPTIONAL gives the same where more is bound than what stands before it."""
    return all(
        inner.kind in ("GROUP", "UNION", "VALUES", "SERVICE")
        or (inner.kind == "TRIPLE" and not inner.path)
        or (inner.kind == "GRAPH" and inner.name is not None and inner.name.kind is not Kind.VAR)
        or (inner.kind == "FILTER" and inner in optional.parts[0] and not inner.parts)
        for part in optional.parts
        for element in part
        for inner in (element.walk() if element.kind != "SERVICE" else [element])
    )


def inseparable(group: Sequence[Element]) -> bool:
    """Whether some p|q stays: beside a blank node label, which no two groups can have, in [ ], or too many of them."""
    labelled = _labelled(group)
    return any(
        (labelled and len(_alternatives(element)) > 1) or len(_alternatives(element)) > BRANCHES or _brackets(element)
        if element.kind == "TRIPLE"
        else element.kind not in (*CLOSED, "MINUS") and any(map(inseparable, element.parts))
        for element in group
    )


def _brackets(triple: Element) -> bool:
    """Whether a p|q stands in square brackets."""
    tokens = tokenize(triple.text)
    spans = [(start, end) for start, end in tokens.closing.items() if tokens.items[start].is_mark("[")]
    return any(item.is_mark("|") for start, end in spans for item in tokens.items[start:end])


def _labelled(group: Sequence[Element]) -> bool:
    return any(name.startswith("_:") for element in group if element.kind == "TRIPLE" for name in element.variables)


def _apart(group: Sequence[Element]) -> Iterator[Edit]:
    """Alternative paths as alternative patterns; the triples of a subject are written one by one for it."""
    if _labelled(group):
        return
    for start, triples in groupby((e for e in group if e.kind == "TRIPLE"), key=lambda triple: triple.start):
        sentence = list(triples)
        written = [_alternatives(triple) for triple in sentence]
        if any(len(each) > 1 for each in written) and all(len(each) <= BRANCHES for each in written):
            texts = (each[0] if len(each) == 1 else " UNION ".join(f"{{ {one} }}" for one in each) for each in written)
            yield Edit(start, sentence[-1].end, " . ".join(texts))


def _alternatives(triple: Element) -> list[str]:
    """The triple patterns that a triple pattern with a path stands for; of too many no more than show it."""
    if not triple.path:
        return [triple.text]
    items = tokenize(triple.text).items
    path = _Path(items, 1)
    branches = path.alternatives()
    rest = triple.text[items[path.index].start :]
    return [f"{items[0].text} {branch} {rest}" for branch in branches]


@dataclass
class _Path:
    """A property path, read as the paths without alternatives that it stands for; what repeats stays whole."""

    items: Sequence[Token]
    index: int

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
        if self.items[self.index].is_mark("*", "+", "?"):
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
        found = self.items[self.index].is_mark(mark)
        self.index += found
        return found

    def _take(self) -> Token:
        self.index += 1
        return self.items[self.index - 1]
