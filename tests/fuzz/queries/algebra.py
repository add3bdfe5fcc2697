"""SPARQL 1.1's algebra, evaluated as its definitions say: bags, from the inside to the outside, and nothing clever.

It takes the place of the SPARQL library in the tests: section numbers are those of the W3C's recommendation. Queries
are trees, not texts; a group is folded as 18.2.2 translates it. What the recommendation leaves open is left out: EXISTS
holds no sub-query, no MINUS, and nothing that makes a variable anew.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cmp_to_key
from typing import Any, NamedTuple, TypeAlias


class Term(NamedTuple):
    """A constant: kind is iri, int, text or bool."""

    kind: str
    value: int | str | bool


class Var(NamedTuple):
    """A variable, or a blank node of a pattern where the name begins with _:."""

    name: str


Row: TypeAlias = dict[str, Term]
Bag: TypeAlias = list[Row]
Fact: TypeAlias = tuple[Term, Term, Term]
Graph: TypeAlias = frozenset[Fact]


@dataclass(frozen=True)
class Path:
    """A sequence `p/q` or an alternative `p|q`."""

    mark: str
    left: Term
    right: Term


@dataclass(frozen=True)
class Triple:
    """A triple pattern."""

    subject: Term | Var
    predicate: Term | Var | Path
    object: Term | Var


@dataclass(frozen=True)
class Op:
    """An operator or a function over expressions."""

    name: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Exists:
    """EXISTS, or NOT EXISTS."""

    group: "Group"
    negated: bool = False


@dataclass(frozen=True)
class Aggregate:
    """A set function; without an expression it is COUNT(*)."""

    name: str
    of: object = None
    distinct: bool = False


@dataclass(frozen=True)
class Group:
    """`{ ... }`."""

    elements: tuple[object, ...] = ()


@dataclass(frozen=True)
class Union:
    """Groups with UNION between them."""

    parts: tuple[Group, ...]


@dataclass(frozen=True)
class Optional:
    """OPTIONAL."""

    group: Group


@dataclass(frozen=True)
class Minus:
    """MINUS."""

    group: Group


@dataclass(frozen=True)
class Filter:
    """FILTER; it belongs to its whole group."""

    expression: object


@dataclass(frozen=True)
class Bind:
    """BIND."""

    expression: object
    var: Var


@dataclass(frozen=True)
class Values:
    """VALUES; None is UNDEF."""

    vars: tuple[Var, ...]
    rows: tuple[tuple[Term | None, ...], ...]


@dataclass(frozen=True)
class Within:
    """WINDOW or GRAPH."""

    word: str
    name: Term | Var
    group: Group


@dataclass(frozen=True)
class Service:
    """SERVICE."""

    name: Term
    group: Group
    silent: bool = False


@dataclass(frozen=True)
class Select:
    """SELECT as query or sub-query; no items are `*`, an item is a variable or an expression with its name."""

    where: Group
    items: tuple[Any, ...] = ()
    distinct: bool = False
    by: tuple[Var, ...] = ()
    having: Any = None
    order: tuple[Var, ...] = ()
    limit: int | None = None

    @property
    def groups(self) -> bool:
        """Whether solutions are grouped."""
        alone = (item[0] for item in self.items if not isinstance(item, Var))
        return bool(self.by) or self.having is not None or any(isinstance(n, Aggregate) for e in alone for n in walk(e))


@dataclass(frozen=True)
class Data:
    """What a query is asked of: the default graph, windows and graphs by name, and what the remotes hold now."""

    default: Graph = frozenset()
    windows: Mapping[str, Graph] = field(default_factory=dict)
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    remotes: Mapping[str, Graph] = field(default_factory=dict)


class WrongError(Exception):
    """An expression has no value."""


class TooBigError(Exception):
    """A bag of more solutions than a test should wait for."""


MOST = 3_000
TRUE, FALSE = Term("bool", True), Term("bool", False)


def walk(node: object) -> Iterator[object]:
    """A tree's nodes, each before those inside it."""
    yield node
    if isinstance(node, Term | Var):
        return
    inner = [getattr(node, f.name) for f in fields(node)] if is_dataclass(node) else node
    if isinstance(inner, list | tuple):
        for each in inner:
            yield from walk(each)


# ---------------------------------------------------------------- patterns


def solutions(group: Group, data: Data, graph: Graph) -> Bag:
    """The solutions of a group (18.2.2.6, 18.5)."""
    rows, filters = _folded(group, data, graph)
    return [row for row in rows if _passes(filters, row, data, graph)]


def _folded(group: Group, data: Data, graph: Graph) -> tuple[Bag, list[object]]:
    """The solutions of a group without its FILTERs, and these."""
    rows: Bag = [{}]
    filters = []
    for element in group.elements:
        if isinstance(element, Filter):
            filters.append(element.expression)
        elif isinstance(element, Optional):
            rows = _left_join(rows, element.group, data, graph)
        elif isinstance(element, Minus):
            taken = solutions(element.group, data, graph)
            rows = [row for row in rows if not any(row.keys() & t.keys() and _compatible(row, t) for t in taken)]
        elif isinstance(element, Bind):
            rows = [_extended(row, element.var.name, element.expression, data, graph) for row in rows]
        else:
            rows = _join(rows, _evaluated(element, data, graph))
    return [{name: term for name, term in row.items() if name[0] != "_"} for row in rows], filters


def _evaluated(element: object, data: Data, graph: Graph) -> Bag:
    """The solutions of what joins with the rest of its group."""
    if isinstance(element, Triple):
        return _matches(element, graph)
    if isinstance(element, Group):
        return solutions(element, data, graph)
    if isinstance(element, Union):
        return [row for part in element.parts for row in solutions(part, data, graph)]
    if isinstance(element, Values):
        names = [var.name for var in element.vars]
        return [{n: t for n, t in zip(names, row, strict=True) if t is not None} for row in element.rows]
    if isinstance(element, Service):
        remote = data.remotes[str(element.name.value)]
        return solutions(element.group, Data(remote, remotes=data.remotes), remote)
    if isinstance(element, Select):
        return selected(element, data, graph)
    assert isinstance(element, Within)
    named = data.windows if element.word == "WINDOW" else data.graphs
    if isinstance(element.name, Term):
        return solutions(element.group, data, named.get(str(element.name.value), frozenset()))
    found: Bag = []
    for name, content in named.items():
        found += _join([{element.name.name: Term("iri", name)}], solutions(element.group, data, content))
    return found


def _matches(pattern: Triple, graph: Graph) -> Bag:
    if isinstance(pattern.predicate, Path):
        path, middle = pattern.predicate, Var("_:middle")
        if path.mark == "|":
            ways = [replace(pattern, predicate=each) for each in (path.left, path.right)]
            return [row for way in ways for row in _matches(way, graph)]
        first = _matches(Triple(pattern.subject, path.left, middle), graph)
        found = _join(first, _matches(Triple(middle, path.right, pattern.object), graph))
        return [{name: term for name, term in row.items() if name != middle.name} for row in found]
    found = []
    for fact in graph:
        row: Row = {}
        for at, term in zip((pattern.subject, pattern.predicate, pattern.object), fact, strict=True):
            if at != term if isinstance(at, Term) else row.setdefault(at.name, term) != term:
                break
        else:
            found.append(row)
    return found


def _compatible(left: Row, right: Row) -> bool:
    return all(right.get(name, term) == term for name, term in left.items())


def _join(left: Bag, right: Bag) -> Bag:
    found = [{**a, **b} for a in left for b in right if _compatible(a, b)]
    if len(found) > MOST:
        raise TooBigError
    return found


def _left_join(left: Bag, group: Group, data: Data, graph: Graph) -> Bag:
    """OPTIONAL: its own FILTERs look at both sides (18.2.2.6)."""
    right, filters = _folded(group, data, graph)
    found = []
    for row in left:
        both = [m for m in _join([row], right) if _passes(filters, m, data, graph)]
        found += both or [row]
    return found


def _extended(row: Row, name: str, expression: object, data: Data, graph: Graph) -> Row:
    try:
        return {**row, name: value(expression, row, data, graph)}
    except WrongError:
        return row


# ---------------------------------------------------------------- SELECT


def selected(query: Select, data: Data, graph: Graph) -> Bag:
    """The solutions of SELECT (18.2.4, 18.2.5)."""
    rows = solutions(query.where, data, graph)
    if query.groups:
        rows = _grouped(query, rows, data, graph)
    else:
        for item in query.items:
            if not isinstance(item, Var):
                rows = [_extended(row, item[1].name, item[0], data, graph) for row in rows]
    names = {(item if isinstance(item, Var) else item[1]).name for item in query.items}
    if names:
        rows = [{name: term for name, term in row.items() if name in names} for row in rows]
    if query.distinct:
        rows = [dict(row) for row in dict.fromkeys(tuple(sorted(row.items())) for row in rows)]
    for var in reversed(query.order):
        rows = sorted(rows, key=_by(var.name))
    return rows[: query.limit]


def _grouped(query: Select, rows: Bag, data: Data, graph: Graph) -> Bag:
    groups: dict[tuple[Term | None, ...], Bag] = {} if query.by else {(): []}
    for row in rows:
        groups.setdefault(tuple(row.get(var.name) for var in query.by), []).append(row)
    found = []
    for key, members in groups.items():
        known = {var.name: term for var, term in zip(query.by, key, strict=True) if term is not None}
        if query.having is not None and not _passes([query.having], known, data, graph, members):
            continue
        row = dict(known)
        for item in query.items:
            if not isinstance(item, Var):
                try:
                    row[item[1].name] = value(item[0], row, data, graph, members)
                except WrongError:
                    continue
        found.append(row)
    return found


def _aggregated(set_function: Aggregate, members: Bag, data: Data, graph: Graph) -> Term:
    """A set function over a group (18.5.1): COUNT leaves out what has no value, the others have none then."""
    if set_function.of is None:
        once = {tuple(sorted(row.items())) for row in members}
        return Term("int", len(once) if set_function.distinct else len(members))
    found, wrong = [], False
    for row in members:
        try:
            found.append(value(set_function.of, row, data, graph))
        except WrongError:
            wrong = True
    if set_function.distinct:
        found = list(dict.fromkeys(found))
    if set_function.name == "COUNT":
        return Term("int", len(found))
    if wrong:
        raise WrongError
    if set_function.name == "SUM":
        return Term("int", sum(map(_number, found)))
    if not found:
        raise WrongError
    return sorted(found, key=cmp_to_key(_order))[0 if set_function.name == "MIN" else -1]


def _by(name: str) -> Callable[[dict[str, Term]], Any]:
    def order(a: dict[str, Term], b: dict[str, Term]) -> int:
        return _order(a.get(name), b.get(name))

    return cmp_to_key(order)


def _order(a: Term | None, b: Term | None) -> int:
    """ORDER BY (15.1): nothing, names, literals; literals of one kind by value."""
    left, right = (("", "iri", "int", "text", "bool").index(t.kind) if t else 0 for t in (a, b))
    if left != right or a is None or b is None:
        return left - right
    return (a.value > b.value) - (a.value < b.value)  # type: ignore[operator]


# ---------------------------------------------------------------- expressions


def _passes(filters: list[Any], row: Row, data: Data, graph: Graph, members: Bag | None = None) -> bool:
    try:
        return all(_truth(value(each, row, data, graph, members)) for each in filters)
    except WrongError:
        return False


def value(expression: object, row: Row, data: Data, graph: Graph, members: Bag | None = None) -> Term:
    """The value of an expression, or WrongError (17.2)."""
    if isinstance(expression, Term):
        return expression
    if isinstance(expression, Var):
        if expression.name not in row:
            raise WrongError
        return row[expression.name]
    if isinstance(expression, Exists):
        found = solutions(substituted(expression.group, row), data, graph)
        return Term("bool", bool(found) is not expression.negated)
    if isinstance(expression, Aggregate):
        assert members is not None
        return _aggregated(expression, members, data, graph)
    assert isinstance(expression, Op)

    def of(n: int) -> Term:
        return value(expression.args[n], row, data, graph, members)

    name = expression.name
    if name == "BOUND":
        return Term("bool", expression.args[0].name in row)
    if name in ("&&", "||"):
        return _logical(name, of)
    if name == "!":
        return Term("bool", not _truth(of(0)))
    if name == "IF":
        return of(1) if _truth(of(0)) else of(2)
    if name == "COALESCE":
        return _first(len(expression.args), of)
    return _applied(name, of(0), of(1))


def _logical(name: str, of: Any) -> Term:
    """One side decides alone where the other has no value (17.2)."""
    deciding, wrong = name == "||", False
    for n in (0, 1):
        try:
            if _truth(of(n)) is deciding:
                return Term("bool", deciding)
        except WrongError:
            wrong = True
    if wrong:
        raise WrongError
    return Term("bool", not deciding)


def _first(count: int, of: Any) -> Term:
    for n in range(count):
        try:
            found: Term = of(n)
        except WrongError:
            continue
        return found
    raise WrongError


def _applied(name: str, a: Term, b: Term) -> Term:
    if name in ("=", "!="):
        return Term("bool", (a == b) is (name == "="))
    if name in ("+", "-", "*"):
        left, right = _number(a), _number(b)
        return Term("int", {"+": left + right, "-": left - right, "*": left * right}[name])
    if a == b:
        return FALSE  # of names as well, an extension that 17.3.1 allows
    if a.kind != b.kind or a.kind == "iri":
        raise WrongError
    return Term("bool", a.value < b.value if name == "<" else a.value > b.value)  # type: ignore[operator]


def _number(term: Term) -> int:
    if term.kind != "int":
        raise WrongError
    return int(term.value)


def _truth(term: Term) -> bool:
    """The effective boolean value (17.2.2)."""
    if term.kind == "iri":
        raise WrongError
    return bool(term.value)


def substituted(node: Any, row: Row) -> Any:
    """A pattern with the values of a solution in place of its variables (18.6, substitute)."""
    if isinstance(node, Var):
        return row.get(node.name, node)
    if isinstance(node, Op) and node.name == "BOUND":
        return TRUE if node.args[0].name in row else node
    if isinstance(node, Values):
        return _chosen(node, row)
    if isinstance(node, Term) or not (isinstance(node, tuple) or is_dataclass(node)):
        return node
    if isinstance(node, tuple):
        return tuple(substituted(each, row) for each in node)
    changed: Any = node
    return replace(changed, **{f.name: substituted(getattr(node, f.name), row) for f in fields(node)})


def _chosen(values: Values, row: Row) -> Values:
    """The rows of VALUES that agree with a solution, over the variables that it does not have."""
    known = [row.get(var.name) for var in values.vars]
    agreeing = [r for r in values.rows if all(k is None or t in (None, k) for k, t in zip(known, r, strict=True))]
    kept = [n for n, term in enumerate(known) if term is None]
    return Values(tuple(values.vars[n] for n in kept), tuple(tuple(r[n] for n in kept) for r in agreeing))
