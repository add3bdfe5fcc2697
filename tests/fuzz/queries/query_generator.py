"""Random queries over random streams and remotes, from a seed: windows, SERVICE blocks, and the algebra around them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from algebra import (
    Aggregate,
    Bind,
    Exists,
    Fact,
    Filter,
    Graph,
    Group,
    Minus,
    Op,
    Optional,
    Path,
    Select,
    Service,
    Term,
    Triple,
    Union,
    Values,
    Var,
    Within,
    walk,
)

VOCABULARY = {
    "w": (("topic", "post", "topic"), ("by", "post", "user"), ("num", "post", "int")),
    "b": (
        ("discussedBy", "topic", "user"),
        ("followers", "user", "int"),
        ("name", "user", "text"),
        ("of", "user", "int"),
    ),
    "c": (("near", "topic", "topic"), ("score", "topic", "int"), ("label", "topic", "text"), ("rates", "post", "int")),
    "g": (("near", "topic", "topic"), ("rank", "user", "int"), ("label", "topic", "text")),
}
"""Per place the predicates, with the sorts of their subjects and objects; w are the streams, b and c the remotes."""
VARIABLES = {"post": "pq", "topic": "tx", "user": "uv", "int": "nmk", "text": "az"}
OWN = {"num": "k", "rank": "m", "of": "m", "rates": "m"}
"""The variables of numbers that mean something else, so that they seldom join."""
MEMBERS = {
    "post": [Term("iri", f"p{n}") for n in range(2)],
    "topic": [Term("iri", f"t{n}") for n in range(2)],
    "user": [Term("iri", f"u{n}") for n in range(2)],
    "int": [Term("int", n) for n in range(1, 4)],
    "text": [Term("text", word) for word in ("a", "b")],
}
VOLATILE: dict[str, tuple[tuple[str, ...], ...]] = {
    "b": (("followers",),) * 3 + (("followers", "name"),),
    "c": (("score",),) * 3 + (("score", "rates"),),
}
SECOND = 1000
DENSE = 0.2
"""of the cases"""
BLOCKS = ("optional", "union", "minus", "filter")


@dataclass(frozen=True)
class Window:
    """A window of a query; without a name its content is the default graph's."""

    name: str
    stream: str
    range: int
    right_open: bool = False

    def content(self, world: "World", now: int) -> Graph:
        """What it holds at an instant."""
        early = self.right_open
        elements = world.streams[self.stream]
        return frozenset(f for t, f in elements if now - self.range < t + early <= now)


@dataclass(frozen=True)
class World:
    """Streams of (time, triple), the versions of the remotes, each from its time on, and a graph that stays."""

    streams: dict[str, tuple[tuple[int, Fact], ...]]
    remotes: dict[str, tuple[tuple[int, Graph], ...]]
    graph: Graph

    def remote(self, name: str, now: int) -> Graph:
        """What a remote holds at an instant."""
        return [content for t, content in self.remotes[name] if t <= now][-1]


@dataclass(frozen=True)
class Case:
    """A query with its world, and how it is run."""

    seed: str
    form: str
    query: Select
    template: tuple[Triple, ...]
    windows: tuple[Window, ...]
    world: World
    volatile: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fetch: str = "view"
    budget: float = 1000
    edges: bool = False
    operator: str = "RSTREAM"
    policy: str = ""


def case_of(seed: str) -> Case:
    """The case of a seed."""
    return _Generator(random.Random(seed), random.Random(f"dense {seed}").random() < DENSE).case(seed)


@dataclass
class _Generator:
    lots: random.Random
    dense: bool = False
    """whether blocks in blocks and paths of several ways are many"""
    services: int = 0
    """how many SERVICE blocks may still come"""
    named: int = 0
    blanks: int = 0
    windows: tuple[Window, ...] = ()
    merged: bool = False

    def case(self, seed: str) -> Case:
        """Windows, query, world and settings."""
        lots = self.lots
        self.windows = tuple(self._windows())
        self.merged = not self.windows[-1].name
        self.services = lots.choice([0, 1, 1, 1, 1, 1, 2, 2])
        form = lots.choices(["SELECT", "ASK", "CONSTRUCT"], [12, 1, 1])[0]
        query = self._query()
        if form != "SELECT":
            query = Select(query.where)
        self.windows = tuple(_used(self.windows, query))
        edges = lots.random() < 0.4
        volatile = {name: lots.choice(choices) for name, choices in VOLATILE.items()}
        return Case(
            seed,
            form,
            query,
            tuple(self._template(query)) if form == "CONSTRUCT" else (),
            self.windows,
            self._world(volatile, edges),
            volatile,
            lots.choices(["view", "always", "once"], [8, 2, 1])[0],
            lots.choice([0, 0.5, 1, 2, 1000, 1000, 1000]),
            edges,
            lots.choices(["RSTREAM", "ISTREAM", "DSTREAM"], [6, 1, 1])[0],
            lots.choice(["", "", "random", "lru"]),
        )

    def _windows(self) -> Iterator[Window]:
        lots = self.lots
        yield Window("w", "s", lots.choice([2, 2, 3]) * SECOND, lots.random() < 0.1)
        if lots.random() < 0.4:
            yield Window("y", lots.choice("sr"), lots.choice([1, 2]) * SECOND)
        if lots.random() < 0.15:
            yield Window("", lots.choice("sr"), 2 * SECOND)

    # ------------------------------------------------------------ the world

    def _world(self, volatile: dict[str, tuple[str, ...]], edges: bool) -> World:
        lots, t = self.lots, 300
        streams: dict[str, list[tuple[int, Fact]]] = {window.stream: [] for window in self.windows}
        for n in range(lots.randrange(7, 16)):
            t += SECOND if n == 1 else lots.choice([0, 0, 200, 300, 600])
            stream = list(streams)[n] if n < len(streams) else lots.choice(list(streams))
            streams[stream].append((t, self._fact("w")))
        remotes = {name: self._versions(name, None if edges else volatile[name], t) for name in ("b", "c")}
        graph = frozenset(self._fact("g") for _ in range(9))
        return World({name: tuple(elements) for name, elements in streams.items()}, remotes, graph)

    def _fact(self, place: str, changing: Sequence[str] | None = None) -> Fact:
        known = [each for each in VOCABULARY[place] if changing is None or each[0] in changing]
        predicate, subject, object_ = self.lots.choice(known)
        return self.lots.choice(MEMBERS[subject]), Term("iri", predicate), self.lots.choice(MEMBERS[object_])

    def _versions(self, name: str, changing: Sequence[str] | None, until: int) -> tuple[tuple[int, Graph], ...]:
        """What a remote holds; now and then a triple comes, goes, or takes the place of its like."""
        lots = self.lots
        content = frozenset(self._fact(name) for _ in range(lots.choice([6, 12, 18, 18])))
        found = [(0, content)]
        for t in sorted(
            lots.choice([lots.randrange(300, until + 500), lots.randrange(1, 5) * SECOND]) for _ in range(4)
        ):
            fact = self._fact(name, changing)
            like = frozenset(each for each in content if each[:2] == fact[:2])
            content = lots.choice([content | {fact}, content - {fact}, content - like, (content - like) | {fact}])
            found.append((t, content))
        return tuple(found)

    # ------------------------------------------------------------ queries

    def _query(self) -> Select:
        where = self._where()
        if self.services and self.lots.random() < 0.9:  # a SERVICE that found no place inside
            where = Group((*where.elements, *self._service(where.elements)))
        return self._select(where)

    def _where(self) -> Group:
        elements: list[object] = [self._window((), 1)]
        if self.services and self.lots.random() < 0.5:
            elements.append(self._nested(elements))
            if self.lots.random() < 0.4:  # what looks at what the block shows
                looking = self.lots.choice([self._filter, self._filter, self._bind, self._minus])
                elements.append(looking("top", 1, elements[-1:]))
        for _ in range(self.lots.choice([1, 1, 2, 2, 3])):
            elements += self._elements("top", 2, elements)
        if self.lots.random() < 0.1:
            self.lots.shuffle(elements)
        return Group(self._lawful(elements))

    def _select(self, where: Group, grouped: float = 0.3) -> Select:
        """What is shown of a pattern, grouped or not."""
        lots = self.lots
        scope = sorted(in_scope(where))
        if not scope or lots.random() < 0.15:
            return Select(where)
        if lots.random() < grouped:
            return self._grouped(where, scope)
        items: list[object] = [Var(name) for name in lots.sample(scope, lots.randint(1, len(scope)))]
        if lots.random() < 0.15:
            items.append((self._expression("int", scope, 2), self._new()))
        distinct = lots.random() < 0.25
        if lots.random() < 0.12:
            order = tuple(item for item in items if isinstance(item, Var))
            if len(order) == len(items):
                return Select(where, order, distinct, order=order, limit=lots.randrange(1, 4))
        return Select(where, tuple(items), distinct)

    def _grouped(self, where: Group, scope: Sequence[str]) -> Select:
        lots = self.lots
        by = tuple(Var(name) for name in lots.sample(scope, min(len(scope), lots.choice([0, 1, 1, 2]))))
        items: list[object] = [var for var in by if lots.random() < 0.9]
        for _ in range(lots.choice([1, 1, 2])):
            items.append((self._aggregate(scope), self._new()))
        having = Op(">", (self._aggregate(scope, "COUNT"), Term("int", 1))) if lots.random() < 0.15 else None
        return Select(where, tuple(items), lots.random() < 0.1, by, having)

    def _aggregate(self, scope: Sequence[str], name: str = "") -> Aggregate:
        lots = self.lots
        name = name or lots.choice(["COUNT", "SUM", "MIN", "MAX"])
        numbers = [each for each in scope if each[0] in "nmki"]
        if name == "COUNT":
            of = None if lots.random() < 0.5 else Var(lots.choice(scope))
        else:
            of = Var(lots.choice(numbers or list(scope)))
        return Aggregate(name, of, of is not None and lots.random() < 0.25)

    def _template(self, query: Select) -> Iterator[Triple]:
        scope = sorted(in_scope(query.where)) or ["none"]
        for n in range(self.lots.choice([1, 2])):
            yield Triple(Var(self.lots.choice(scope)), Term("iri", f"has{n}"), Var(self.lots.choice(scope)))

    # ------------------------------------------------------------ groups

    def _group(self, place: str, depth: int, around: Sequence[object] = (), most: int = 3) -> Group:
        """A group at a place, which may use the variables around it."""
        elements: list[object] = []
        for _ in range(self.lots.randint(1, most)):
            elements += self._elements(place, depth, elements or around)
        return Group(self._lawful(elements))

    def _elements(self, place: str, depth: int, before: Sequence[object]) -> list[object]:
        """One more element, or a pattern of two that share a blank node."""
        lots = self.lots
        kinds = {"pattern": 7, "filter": 1.3, "bind": 1, "values": 0.5}
        if place == "top":
            kinds |= {"service": 4 if self.services else 0, "graph": 0.7}
        if place == "window":
            kinds |= {"service": 0.7 if self.services else 0}
        if depth:
            kinds |= {"optional": 1.3, "union": 0.8, "minus": 0.7, "group_": 0.9, "select_": 0.6}
        if self.dense and depth:
            kinds = {name: weight * (4 if name in BLOCKS else 1) for name, weight in kinds.items()}
        kind = lots.choices(list(kinds), list(kinds.values()))[0]
        if kind == "service":
            return self._service(before)
        if kind == "pattern":
            return self._pattern(place, before)
        return [getattr(self, f"_{kind}")(place, depth, before)]

    def _pattern(self, place: str, before: Sequence[object]) -> list[object]:
        if place == "top":
            if self.merged and self.lots.random() < 0.4:
                return [self._triple("w")]
            return [self._window(before, 1)]
        place = "w" if place == "window" else place
        first = self._triple(place)
        if self.lots.random() < 0.06:
            self.blanks += 1
            blank = Var(f"_:b{self.blanks}")
            sort = next((each[2] for each in VOCABULARY[place] if first.predicate == Term("iri", each[0])), "")
            then = [each for each in VOCABULARY[place] if each[1] == sort]
            first = Triple(first.subject, first.predicate, blank)
            if then:
                predicate, _, object_ = self.lots.choice(then)
                return [first, Triple(blank, Term("iri", predicate), self._node(object_))]
        return [first]

    def _triple(self, place: str) -> Triple:
        lots = self.lots
        predicate, subject, object_ = lots.choice(VOCABULARY[place])
        path: Term | Path = Term("iri", predicate)
        if lots.random() < (0.3 if self.dense else 0.04):
            like = [each for each in VOCABULARY[place] if each[1:] == (subject, object_)]
            then = [each for each in VOCABULARY[place] if each[1] == object_]
            if then:
                other, _, object_ = lots.choice(then)
                path = Path("/", Term("iri", predicate), Term("iri", other))
            elif lots.random() < 0.3:
                path = Path("|", Term("iri", predicate), Term("iri", lots.choice(like)[0]))
        return Triple(self._node(subject), path, self._node(object_, OWN.get(predicate, "")))

    def _node(self, sort: str, own: str = "") -> Term | Var:
        if self.lots.random() < 0.05:
            return self.lots.choice(MEMBERS[sort])
        names = VARIABLES[sort]
        return Var(own if own and self.lots.random() < 0.8 else self.lots.choice(names + names[0]))

    def _nested(self, before: Sequence[object]) -> object:
        """A block, or one in another, that holds a SERVICE."""
        lots = self.lots
        own = [self._window(before, 1)] if lots.random() < 0.4 else []
        elements = [*own, *self._service([*before, *own])]
        if lots.random() < 0.5:
            elements += self._elements("top", 1, elements)
        if self.services and lots.random() < 0.2:
            elements.append(self._nested(elements))
        group = Group(self._lawful(elements))
        for _ in range(lots.choice([1, 1, 1, 2])):
            group = Group((self._wrapped(group),))
        return group.elements[0]

    def _wrapped(self, group: Group) -> object:
        lots = self.lots
        kind = lots.choice(["optional", "optional", "minus", "group", "union", "select", "select", "exists"])
        if kind == "union":
            parts = [group, self._group("top", 1, group.elements, 2)]
            return Union(tuple(lots.sample(parts, 2)))
        if kind == "select":
            return self._select(group, self.lots.choice([0.3, 1]))
        if kind == "exists":
            expression = Exists(Group(tuple(_plain(group.elements))), lots.random() < 0.5)
            return Filter(expression) if lots.random() < 0.6 else Bind(expression, self._new())
        return group if kind == "group" else {"optional": Optional, "minus": Minus}[kind](group)

    def _window(self, before: Sequence[object], depth: int) -> Within:
        free = self.lots.random() < 0.03
        group = Group((self._triple("w"),)) if self.lots.random() < 0.6 else self._group("window", depth, before)
        return Within("WINDOW", Var("w") if free else self._named(), group)

    def _named(self) -> Term:
        return Term("iri", self.lots.choice([window.name for window in self.windows if window.name]))

    def _graph(self, place: str, depth: int, before: Sequence[object]) -> Within:
        del place
        name = Var("gr") if self.lots.random() < 0.1 else Term("iri", "g")
        return Within("GRAPH", name, self._group("g", max(0, depth - 1), before, 2))

    def _service(self, before: Sequence[object]) -> list[object]:
        """A remote's patterns, joined with what is there, or with a window's pattern that comes first."""
        lots = self.lots
        self.services -= 1
        name = lots.choice("bbc")
        scope = in_scope(Group(tuple(before)))
        known = [name for name in "tx" + "uv" * (name == "b") if name in scope]
        first: list[object] = []
        if not known or lots.random() < 0.05:
            known = [lots.choice("tu" if name == "b" else "t")]
            first = [Within("WINDOW", self._named(), Group((self._pattern_of("w", Var(known[0])),)))]
        kept, self.services = self.services, 0
        elements: list[object] = self._joining(name, Var(lots.choice(known)))
        if lots.random() < 0.6:
            more = self._elements(name, lots.choice([0, 1, 1]), elements)
            at = len(elements) if lots.random() < 0.7 else lots.randint(0, len(elements))
            elements[at:at] = more
        self.services = kept
        return [*first, Service(Term("iri", name), Group(self._lawful(elements)), lots.random() < 0.05)]

    def _joining(self, name: str, key: Var) -> list[object]:
        """An edge and what changes, or only the latter."""
        changing = VOCABULARY[name][1]
        edge = Term("iri", VOCABULARY[name][0][0])
        far = Var(self.lots.choice("uuuv" if name == "b" else "xxxt"))
        whole = key.name in "tx" and (name == "b" or self.lots.random() < 0.5)
        value = Triple(far if whole else key, Term("iri", changing[0]), self._node("int", "n"))
        return [Triple(key, edge, far), value] if whole else [value]

    def _pattern_of(self, place: str, object_: Var) -> Triple:
        """A triple pattern with this object."""
        predicate, subject, _ = next(each for each in VOCABULARY[place] if object_.name in VARIABLES[each[2]])
        return Triple(self._node(subject), Term("iri", predicate), object_)

    def _optional(self, place: str, depth: int, before: Sequence[object]) -> Optional:
        return Optional(self._group(place, depth - 1, before))

    def _minus(self, place: str, depth: int, before: Sequence[object]) -> Minus:
        return Minus(self._group(place, depth - 1, before, 2))

    def _union(self, place: str, depth: int, before: Sequence[object]) -> Union:
        return Union(tuple(self._group(place, depth - 1, before, 2) for _ in range(2)))

    def _group_(self, place: str, depth: int, before: Sequence[object]) -> Group:
        return self._group(place, depth - 1, before)

    def _select_(self, place: str, depth: int, before: Sequence[object]) -> Select:
        return self._select(self._group(place, depth - 1, before, 2))

    def _filter(self, place: str, depth: int, before: Sequence[object]) -> Filter:
        scope = sorted(in_scope(Group(tuple(before))))
        if depth and self.lots.random() < 0.2:
            inner = Group(self._lawful(_plain(self._group(place, depth - 1, before, 2).elements)))
            return Filter(Exists(inner, self.lots.random() < 0.5))
        return Filter(self._expression("bool", scope, 2))

    def _bind(self, place: str, depth: int, before: Sequence[object]) -> Bind:
        del place, depth
        scope = in_scope(Group(tuple(before)))
        sort = self.lots.choice(["int", "int", "topic", "user", "bool"])
        pool = [name for name in VARIABLES.get(sort, "") if name not in scope]
        var = Var(self.lots.choice(pool)) if pool and self.lots.random() < 0.4 else self._new()
        return Bind(self._expression(sort, sorted(scope), 2), var)

    def _values(self, place: str, depth: int, before: Sequence[object]) -> Values:
        del place, depth, before
        lots = self.lots
        sorts = lots.sample(["topic", "user", "int"], lots.choice([1, 1, 2]))
        rows = [tuple(None if lots.random() < 0.07 else lots.choice(MEMBERS[s]) for s in sorts) for _ in range(3)]
        return Values(tuple(Var(lots.choice(VARIABLES[sort])) for sort in sorts), tuple(rows[: lots.randint(1, 3)]))

    def _new(self) -> Var:
        self.named += 1
        return Var(f"i{self.named}")

    def _lawful(self, elements: Sequence[object]) -> tuple[object, ...]:
        """Without what SPARQL forbids: a BIND of what is in scope before it."""
        kept: list[object] = []
        for element in elements:
            if not (isinstance(element, Bind) and element.var.name in in_scope(Group(tuple(kept)))):
                kept.append(element)
        return tuple(kept)

    # ------------------------------------------------------------ expressions

    def _expression(self, sort: str, scope: Sequence[str], depth: int) -> object:
        lots = self.lots
        if sort == "bool":
            return self._condition(scope, depth)
        ways = (
            ["variable"] * 4 + ["constant"] * 2 + (["COALESCE", "IF"] + ["sum"] * 3 * (sort == "int") if depth else [])
        )
        way = lots.choice(ways)
        if way == "constant":
            return lots.choice(MEMBERS[sort])
        if way == "COALESCE":
            return Op("COALESCE", (self._variable(sort, scope), self._expression(sort, scope, depth - 1)))
        if way == "IF":
            inner = [self._expression(sort, scope, depth - 1) for _ in range(2)]
            return Op("IF", (self._condition(scope, depth - 1), *inner))
        if way == "sum":
            inner = [self._expression("int", scope, depth - 1) for _ in range(2)]
            return Op(lots.choice("+-*"), tuple(inner))
        return self._variable(sort, scope)

    def _variable(self, sort: str, scope: Sequence[str]) -> Var:
        pool = VARIABLES.get(sort, "n")
        known = [name for name in scope if name in pool or (sort == "int" and name[0] == "i")]
        return Var(self.lots.choice(known if known and self.lots.random() < 0.92 else list(pool)))

    def _condition(self, scope: Sequence[str], depth: int) -> object:
        lots = self.lots
        way = lots.choice(["<", ">", "=", "> 0", "> 0", "BOUND", "iri"] + (["!", "&&", "||"] if depth else []))
        if way == "> 0":  # true where it has a value
            return Op(">", (self._variable("int", scope), Term("int", 0)))
        if way == "BOUND":
            return Op("BOUND", (self._variable(lots.choice(list(VARIABLES)), scope),))
        if way == "!":
            return Op("!", (self._condition(scope, depth - 1),))
        if way in ("&&", "||"):
            return Op(way, (self._condition(scope, depth - 1), self._condition(scope, depth - 1)))
        sort = lots.choice(["post", "topic", "user"]) if way == "iri" else "int"
        pair = (self._variable(sort, scope), self._expression(sort, scope, max(0, depth - 1)))
        return Op(lots.choice(["=", "!="]) if way in ("=", "iri") else way, pair)


def _used(windows: Sequence[Window], query: Select) -> Iterator[Window]:
    """Those that the query looks at: SPARQL's texts name no others."""
    names = {node.name for node in walk(query) if isinstance(node, Within) and node.word == "WINDOW"}
    for window in windows:
        if not window.name or Term("iri", window.name) in names or any(isinstance(name, Var) for name in names):
            yield window


def _plain(elements: Sequence[object]) -> list[object]:
    """What may stand in EXISTS: no sub-query, MINUS or BIND at any depth."""
    return [plain for element in elements if (plain := _plainly(element)) is not None]


def _plainly(element: object) -> object:
    if isinstance(element, Select | Minus | Bind):
        return None
    if isinstance(element, Group):
        return Group(tuple(_plain(element.elements)))
    if isinstance(element, Union):
        return Union(tuple(Group(tuple(_plain(part.elements))) for part in element.parts))
    if isinstance(element, Optional):
        return Optional(Group(tuple(_plain(element.group.elements))))
    if isinstance(element, Within):
        return Within(element.word, element.name, Group(tuple(_plain(element.group.elements))))
    if isinstance(element, Service):
        return Service(element.name, Group(tuple(_plain(element.group.elements))), element.silent)
    return element


def in_scope(node: object) -> frozenset[str]:
    """The variables that a pattern may bind (18.2.1)."""
    if isinstance(node, Var):
        return frozenset() if node.name.startswith("_:") else frozenset((node.name,))
    if isinstance(node, Select):
        shown = frozenset((item if isinstance(item, Var) else item[1]).name for item in node.items)
        return shown or in_scope(node.where)
    if isinstance(node, Triple):
        return frozenset().union(*map(in_scope, (node.subject, node.predicate, node.object)))
    if isinstance(node, Group):
        return frozenset().union(*map(in_scope, node.elements))
    if isinstance(node, Union):
        return frozenset().union(*map(in_scope, node.parts))
    if isinstance(node, Optional | Service):
        return in_scope(node.group)
    if isinstance(node, Within):
        return in_scope(node.name) | in_scope(node.group)
    if isinstance(node, Values):
        return frozenset(var.name for var in node.vars)
    return in_scope(node.var) if isinstance(node, Bind) else frozenset()
