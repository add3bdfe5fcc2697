"""The SERVICE patterns of a query, and the variables that its windows bind."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from freshkeeper.maintenance.query.syntax.patterns import Element, read_group
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.tokens import Kind, Tokens, tokenize


@dataclass(frozen=True)
class ServicePattern:
    """P^S: one SERVICE block; `span` is its place in the query's SPARQL text, `text` is its group with the brackets."""

    endpoint: str | None
    text: str
    variables: tuple[str, ...]
    span: tuple[int, int]
    endpoint_variable: str | None = None
    silent: bool = False
    prologue: Prologue = field(default=Prologue(), repr=False)

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """The triple patterns and blocks of the group."""
        return read_group(tokenize(self.text), self.prologue)

    @property
    def bound(self) -> tuple[str, ...]:
        """What its solutions bind."""
        names = frozenset().union(*(element.bound for element in self.elements))
        return tuple(sorted(name for name in names if not name.startswith("_:")))

    @property
    def predicates(self) -> tuple[str, ...]:
        """The IRIs in predicate position, sorted: among them are the volatile ones."""
        return tuple(sorted(frozenset().union(*(element.predicates for element in self.elements))))

    @property
    def where(self) -> str:
        """The endpoint as messages show it."""
        return f"<{self.endpoint}>" if self.endpoint is not None else f"?{self.endpoint_variable}"


def find_services(sparql: str, prologue: Prologue) -> tuple[ServicePattern, ...]:
    """Every SERVICE pattern of a SPARQL text, at any depth, in order."""
    if "service" not in sparql.lower():
        return ()
    tokens = tokenize(sparql)
    found = (_service(tokens, index, prologue) for index, item in enumerate(tokens.items) if item.is_word("SERVICE"))
    return tuple(service for service in found if service is not None)


def _service(tokens: Tokens, index: int, prologue: Prologue) -> ServicePattern | None:
    silent = tokens.items[index + 1].is_word("SILENT")
    name, opening = tokens.items[index + 1 + silent], index + 2 + silent
    if opening not in tokens.closing or not tokens.items[opening].is_mark("{"):
        return None
    start, end = tokens.items[opening].start, tokens.items[tokens.closing[opening]].end
    free = name.kind is Kind.VAR
    text = tokens.text[start:end]
    elements = read_group(tokens, prologue, opening)
    return ServicePattern(
        None if free else prologue.resolve(name.text),
        text,
        tuple(sorted(mentioned(elements))),
        (tokens.items[index].start, end),
        name.text[1:] if free else None,
        silent,
        prologue,
    )


def mentioned(elements: Iterable[Element]) -> frozenset[str]:
    """Every variable of these elements; blank node labels are none."""
    return frozenset(v for e in elements for v in e.variables if not v.startswith("_:"))


def find_window_variables(
    pattern: Tokens, prologue: Prologue, named: Sequence[str], merged: Sequence[str]
) -> Mapping[str, frozenset[str]]:
    """Per window, what its blocks bind; merged windows share what the default graph's patterns bind."""
    elements = read_group(pattern, prologue) if pattern.text else ()
    windows: dict[str, set[str]] = {name: set() for name in (*named, *merged)}
    _collect(elements, windows, prologue, named, merged)
    binds = [e for top in elements for e in top.walk() if e.kind == "BIND"]
    for bind in binds:
        for variables in windows.values():
            if bind.variables - bind.bound and bind.variables - bind.bound <= variables:
                variables |= bind.bound
    return {name: frozenset(v for v in variables if not v.startswith("_:")) for name, variables in windows.items()}


def _collect(
    elements: Iterable[Element],
    windows: dict[str, set[str]],
    prologue: Prologue,
    named: Sequence[str],
    merged: Sequence[str],
) -> None:
    for element in elements:
        if element.kind == "WINDOW" and element.name is not None:
            free = element.name.kind is Kind.VAR
            for name in named if free else [prologue.resolve(element.name.text)]:
                windows.setdefault(name, set()).update(_own(element))
        elif element.kind == "TRIPLE":
            for name in merged:
                windows[name] |= element.bound
        elif element.kind == "SELECT":
            _collect_projected(element, windows, prologue, named, merged)
        elif element.kind not in ("SERVICE", "GRAPH", "FILTER", "MINUS"):
            for part in element.parts:
                _collect(part, windows, prologue, named, merged)


def _own(element: Element) -> frozenset[str]:
    """What an element binds without its SERVICE blocks."""
    if element.kind == "SERVICE":
        return frozenset()
    inner = [e for part in element.parts for e in part]
    if not any(e.kind == "SERVICE" for e in element.walk()):
        return element.bound
    return element.bound - frozenset().union(*(e.bound for e in inner)) | frozenset().union(*map(_own, inner))


def _collect_projected(
    element: Element,
    windows: dict[str, set[str]],
    prologue: Prologue,
    named: Sequence[str],
    merged: Sequence[str],
) -> None:
    """A sub-query shows of its windows' variables what it projects, and what it computes from them."""
    inner: dict[str, set[str]] = {name: set() for name in windows}
    for part in element.parts:
        _collect(part, inner, prologue, named, merged)
    for name, variables in inner.items():
        if variables:
            windows.setdefault(name, set()).update(element.bound)
