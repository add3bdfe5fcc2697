"""The shape of a group graph pattern: its triple patterns and blocks, with their variables and predicates.

Read from text that SPARQL has accepted already, so that nothing here reports an error; what it does not know it takes
for a triple pattern. Expressions are only asked for their variables.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens

BLOCKS = ("OPTIONAL", "MINUS", "GRAPH", "WINDOW", "SERVICE", "FILTER", "BIND", "VALUES", "SELECT", "LATERAL")
_HIDING = ("FILTER", "MINUS", "SERVICE")


@dataclass(frozen=True)
class Element:
    """One triple pattern, one block, or one FILTER, BIND or VALUES.

    `variables` are all it mentions (blank node labels too: they join like variables), `bound` those that it can bind,
    `predicates` the IRIs that stand in predicate position, in paths and in nested groups too.
    """

    kind: str
    text: str
    start: int
    end: int
    variables: frozenset[str]
    bound: frozenset[str]
    predicates: frozenset[str] = frozenset()
    path: bool = False
    predicate_variable: str | None = None
    name: Token | None = None
    silent: bool = False
    parts: tuple[tuple["Element", ...], ...] = ()

    def walk(self) -> Iterator["Element"]:
        """This element and all inside it."""
        yield self
        for part in self.parts:
            for element in part:
                yield from element.walk()


def read_group(tokens: Tokens, prologue: Prologue, opening: int = 0) -> tuple[Element, ...]:
    """The elements of the group that opens at a token index."""
    return tuple(_Reader(tokens, prologue).group(opening))


@dataclass
class _Reader:
    tokens: Tokens
    prologue: Prologue
    known: dict[str, str] = field(default_factory=dict)

    def group(self, opening: int) -> Iterator[Element]:
        index, stop = opening + 1, self.tokens.closing[opening]
        while index < stop:
            token = self.tokens.items[index]
            if token.is_mark("."):
                index += 1
                continue
            if token.is_mark("{"):
                element, index = self._alternatives(index, stop)
                yield element
            elif token.is_word("SELECT"):
                yield self._select(index, stop)
                return
            elif token.is_word(*BLOCKS):
                element, index = self._block(index, stop)
                yield element
            else:
                found, index = self._triples(index, stop)
                yield from found

    def _alternatives(self, index: int, stop: int) -> tuple[Element, int]:
        """A group, or several with UNION between them."""
        start, parts = index, []
        while index < stop and self.tokens.items[index].is_mark("{"):
            parts.append(tuple(self.group(index)))
            index = self.tokens.closing[index] + 1
            if not (index < stop and self.tokens.items[index].is_word("UNION")):
                break
            index += 1
        kind = "UNION" if len(parts) > 1 else "GROUP"
        return self._element(kind, start, index, tuple(parts)), index

    def _block(self, index: int, stop: int) -> tuple[Element, int]:
        """A keyword with what belongs to it, up to the end of its first bracket that holds a body."""
        word, start, name = self.tokens.items[index].text.upper(), index, None
        index += 1
        silent = self.tokens.items[index].is_word("SILENT")
        if word in ("GRAPH", "WINDOW", "SERVICE"):
            name = self.tokens.items[index + silent]
        while index < stop and not self.tokens.items[index].is_mark("(", "{"):
            index += 1
        if word == "VALUES" and index < stop and self.tokens.items[index].is_mark("("):
            index = self.tokens.closing[index] + 1
        opening, index = index, (self.tokens.closing[index] + 1 if index < stop else stop)
        parts = [self.group(o) for o in self._groups(opening, index)] if word != "VALUES" else []
        return self._element(word, start, index, tuple(tuple(part) for part in parts), name, silent), index

    def _groups(self, opening: int, stop: int) -> Iterator[int]:
        """The groups of a block: its own, or those of the EXISTS inside an expression."""
        index = opening
        while index < stop:
            if self.tokens.items[index].is_mark("{"):
                yield index
                index = self.tokens.closing[index]
            index += 1

    def _select(self, index: int, stop: int) -> Element:
        """A sub-query: it shows what it projects, and nothing else."""
        projected: set[str] = set()
        star, start = False, index
        while index < stop and not self.tokens.items[index].is_mark("{"):
            token = self.tokens.items[index]
            if token.is_mark("("):
                index = self.tokens.closing[index]
                projected |= _variables(self.tokens.items[index - 1 : index])
            elif token.kind is Kind.VAR:
                projected.add(token.text[1:])
            star = star or token.is_mark("*")
            index += 1
        inner = tuple(self.group(index)) if index < stop else ()
        shown = frozenset(projected).union(*(e.bound for e in inner if star))
        element = self._element("SELECT", start, stop, (inner,))
        return _replace(element, variables=shown, bound=shown)

    def _element(
        self,
        kind: str,
        start: int,
        stop: int,
        parts: tuple[tuple[Element, ...], ...] = (),
        name: Token | None = None,
        silent: bool = False,
    ) -> Element:
        items = self.tokens.items[start:stop]
        inner = [element for part in parts for element in part]
        own = _variables(items) if not parts or kind in ("FILTER", "BIND") else _variables([name] if name else [])
        mentioned = own.union(*(e.variables for e in inner))
        return Element(
            kind,
            self._text(start, stop),
            items[0].start,
            items[-1].end,
            mentioned,
            self._bound(kind, items, own, inner),
            frozenset().union(*(e.predicates for e in inner)),
            name=name,
            silent=silent,
            parts=parts,
        )

    @staticmethod
    def _bound(kind: str, items: tuple[Token, ...], own: frozenset[str], inner: list[Element]) -> frozenset[str]:
        if kind in ("FILTER", "MINUS"):
            return frozenset()
        if kind == "BIND":
            return _variables(items[-2:])
        return own.union(*(e.bound for e in inner))

    def _triples(self, index: int, stop: int) -> tuple[list[Element], int]:
        """The triple patterns of one subject; a bracketed subject keeps all its triples together."""
        start, subject_end = index, self._node(index, stop)
        index = self._sentence(subject_end, stop)
        whole = self.tokens.items[start].is_mark("[", "(", "<<") or index == subject_end
        if whole:
            return [self._triple(start, index, start, subject_end, [(subject_end, index)])], index
        found, at = [], subject_end
        while at < index:
            predicate_end = self._path(at, index)
            objects = list(self._objects(predicate_end, index))
            for object_start, object_end in objects:
                spans = [(at, predicate_end), (object_start, object_end)]
                found.append(self._triple(start, object_end, start, subject_end, spans))
            at = self._after_semicolons(objects[-1][1] if objects else index, index)
        return found, index

    def _triple(self, start: int, stop: int, subject: int, subject_end: int, spans: list[tuple[int, int]]) -> Element:
        texts = [self._text(subject, subject_end), *(self._text(a, b) for a, b in spans if b > a)]
        nodes = [self.tokens.items[subject:subject_end], *(self.tokens.items[a:b] for a, b in spans)]
        variables = frozenset().union(*(_variables(node) for node in nodes))
        verb = nodes[1]
        nested = [t for node in (nodes if len(spans) == 1 else (nodes[0], nodes[2])) if len(node) > 1 for t in node]
        single = len(spans) == 2 and len(verb) == 1 and verb[0].kind is Kind.VAR
        return Element(
            "TRIPLE",
            " ".join(texts),
            self.tokens.items[start].start,
            self.tokens.items[stop - 1].end,
            variables,
            variables,
            frozenset(filter(None, (self._iri(t) for t in [*verb, *nested]))),
            path=len(spans) == 2 and len(verb) > 1,
            predicate_variable=verb[0].text if single else None,
        )

    def _sentence(self, index: int, stop: int) -> int:
        """The end of the triples of one subject: the full stop, or the keyword or group that follows."""
        while index < stop:
            token = self.tokens.items[index]
            if token.is_mark(".", "{") or token.is_word(*BLOCKS):
                return index
            index = self._node(index, stop)
        return index

    def _node(self, index: int, stop: int) -> int:
        """The end of one term, which may be bracketed, or a literal with its type or language."""
        token = self.tokens.items[index]
        if token.is_mark("<<"):
            return self._term(index, stop)
        if index in self.tokens.closing:
            return self.tokens.closing[index] + 1
        index += 1
        if token.kind is Kind.STRING and index < stop:
            if self.tokens.items[index].is_mark("^^"):
                return min(index + 2, stop)
            return index + (self.tokens.items[index].kind is Kind.LANG)
        signed = token.is_mark("+", "-") and index < stop and self.tokens.items[index].kind is Kind.NUMBER
        return index + signed

    def _term(self, index: int, stop: int) -> int:
        """The end of a quoted triple."""
        depth = 0
        while index < stop:
            token = self.tokens.items[index]
            depth += token.is_mark("<<") - token.is_mark(">>")
            index += 1
            if depth == 0:
                break
        return index

    def _path(self, index: int, stop: int) -> int:
        """The end of a predicate: a variable, a name, or a property path."""
        while index < stop:
            while index < stop and self.tokens.items[index].is_mark("^", "!"):
                index += 1
            if index < stop:
                index = self._node(index, stop)
            while index < stop and self.tokens.items[index].is_mark("*", "+", "?"):
                index += 1
            if index >= stop or not self.tokens.items[index].is_mark("/", "|"):
                break
            index += 1
        return index

    def _objects(self, index: int, stop: int) -> Iterator[tuple[int, int]]:
        while index < stop:
            end = self._node(index, stop)
            yield index, end
            if end >= stop or not self.tokens.items[end].is_mark(","):
                return
            index = end + 1

    def _after_semicolons(self, index: int, stop: int) -> int:
        while index < stop and not self.tokens.items[index].is_mark(";"):
            index += 1
        while index < stop and self.tokens.items[index].is_mark(";"):
            index += 1
        return index

    def _text(self, start: int, stop: int) -> str:
        return self.tokens.text[self.tokens.items[start].start : self.tokens.items[stop - 1].end]

    def _iri(self, token: Token) -> str | None:
        if token.is_word("A"):
            return "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
        if not token.is_name:
            return None
        if token.text not in self.known:
            self.known[token.text] = self._resolve(token.text)
        return self.known[token.text]

    def _resolve(self, name: str) -> str:
        try:
            return self.prologue.resolve(name)
        except (KeyError, ValueError):
            return name


def _variables(tokens: tuple[Token, ...] | list[Token]) -> frozenset[str]:
    names = (t.text[1:] if t.kind is Kind.VAR else t.text for t in tokens if t.kind in (Kind.VAR, Kind.BLANK))
    return frozenset(names)


def _replace(element: Element, variables: frozenset[str], bound: frozenset[str]) -> Element:
    return Element(
        element.kind,
        element.text,
        element.start,
        element.end,
        variables,
        bound,
        element.predicates,
        parts=element.parts,
    )
