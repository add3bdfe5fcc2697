"""Random conjunctive queries with their streams and graphs, from a seed.

A query is made from what its windows hold at some instant: triples of theirs, and of the static graphs beside them,
with variables in place of terms. So it has answers there unless a filter or a report says otherwise.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

XSD = "http://www.w3.org/2001/XMLSchema#"
STEP = 500


def typed(value: str, kind: str) -> Literal:
    """A literal as it is spelt."""
    return Literal(value, datatype=NamedNode(f"{XSD}{kind}"))


NAMES = [NamedNode(f"urn:{name}") for name in "abc"]
PREDICATES = [NamedNode(f"urn:{name}") for name in "pppq"]
SPELT = [
    [typed("1", "integer"), typed("01", "integer"), typed("+1", "integer")],
    [typed("2", "integer"), typed("2.0", "decimal"), typed("2.00", "decimal"), typed("2e0", "double")],
    [typed("true", "boolean"), typed("1", "boolean")],
    [Literal("x", language="en"), Literal("x", language="EN"), Literal("x"), typed("x", "string")],
    [typed("2020-01-01T00:00:00Z", "dateTime"), typed("2020-01-01T00:00:00+00:00", "dateTime")],
    [typed("1", "byte"), typed("no number", "integer")],
    [Literal('"\n\\'), Literal("ä€\U0001f600")],
]  # fmt: skip
"""Values in several spellings; some of one list are one term to the store, some are not."""
NODES = [BlankNode("n"), BlankNode("m")]
EXTENTS = [
    "RANGE PT2S STEP PT1S", "RANGE PT3S STEP PT2S", "RANGE PT1S STEP PT3S", "RANGE PT4S STEP PT1S",
    "RANGE PT2S STEP PT2S STARTING AT 300", "RANGE PT2S",
    "RANGE PT2S STEP PT1S CLOSURE RIGHT_OPEN", "RANGE PT2S CLOSURE RIGHT_OPEN", "FROM NOW-PT3S TO NOW-PT1S STEP PT1S",
    "RANGE PT4S STEP PT2S", "NOW", "ALL", "ALL", "ELEMENTS 3 STEP 1", "ELEMENTS 2 STEP 3",
    "ELEMENTS 6 STEP 2", "ELEMENTS 1",
]  # fmt: skip
REPORTS = [
    "REPORT ON_CONTENT_CHANGE",
    "REPORT NON_EMPTY",
    "REPORT NON_EMPTY, ON_CONTENT_CHANGE",
    "REPORT ON_WINDOW_CLOSE",
]
Elements = Sequence[tuple[int, Triple]]


@dataclass(frozen=True)
class Conjunction:
    """A query and all that it is asked of."""

    seed: str
    text: str
    streams: dict[str, Elements]
    graphs: dict[str, list[Quad]]
    drain: bool = False
    delay: int = 0


def conjunction(seed: str) -> Conjunction:
    """The one of a seed."""
    return _Generator(random.Random(seed)).made(seed)


@dataclass
class _Generator:
    lots: random.Random
    names: dict[object, str] = field(default_factory=dict)
    """the variables of terms"""
    values: dict[str, object] = field(default_factory=dict)
    """what a variable has in the solution that the query is made from"""
    unsure: set[str] = field(default_factory=set)
    """variables that not every solution binds"""
    merged: bool = False
    """whether one window is the default graph"""

    def made(self, seed: str) -> Conjunction:
        lots = self.lots
        names = lots.choice([["s0"], ["s0"], ["s0", "s1"]])
        streams = {f"urn:{name}": self._stream() for name in names}
        places = lots.choice([["", "urn:g"], ["urn:g"], ["urn:g"]])
        graphs = {name: [self._quad() for _ in range(lots.choice([6, 12, 20]))] for name in places}
        text = self._query(streams, graphs)
        delay = lots.choice([0, 0, 0, STEP])
        if delay:
            streams = {name: self._mixed(elements) for name, elements in streams.items()}
        return Conjunction(seed, text, streams, graphs, lots.random() < 0.15, delay)

    # ------------------------------------------------------------ the world

    def _term(self, literals: float) -> NamedNode | BlankNode | Literal | Triple:
        lots = self.lots
        if lots.random() < literals:
            return lots.choice(lots.choice(SPELT))
        if lots.random() < 0.03 * bool(literals):
            return Triple(lots.choice(NAMES), lots.choice(PREDICATES), lots.choice(SPELT[0]))
        return lots.choice(NODES) if lots.random() < 0.12 else lots.choice(NAMES)

    def _triple(self) -> Triple:
        subject = self._term(0)
        assert not isinstance(subject, Literal)
        return Triple(subject, self.lots.choice(PREDICATES), self._term(0.45))

    def _quad(self) -> Quad:
        triple = self._triple()
        return Quad(triple.subject, triple.predicate, triple.object, DefaultGraph())

    def _stream(self) -> Elements:
        """Elements in order, some at the same instant, some again and again."""
        lots, time, found = self.lots, lots_start(self.lots), list[tuple[int, Triple]]()
        for _ in range(lots.randrange(6, 30)):
            again = lots.random() < min(0.85, len(found) / 5)
            found.append((time, lots.choice(found)[1] if again else self._triple()))
            time += lots.choice(
                [0, 0, 0, STEP // 2, STEP // 2, STEP, STEP - 1, lots.choice([STEP, 2 * STEP, 4 * STEP])]
            )
        return found

    def _mixed(self, elements: Elements) -> Elements:
        """Elements that come up to a step late."""
        return sorted(elements, key=lambda element: element[0] + self.lots.choice([0, STEP - 1]))

    # ------------------------------------------------------------ the query

    def _query(self, streams: dict[str, Elements], graphs: dict[str, list[Quad]]) -> str:
        lots = self.lots
        extents = lots.sample(EXTENTS, lots.choice([1, 1, 1, 2, 2, 3]))
        self.merged = lots.random() < 0.2
        now = lots.choice([time for elements in streams.values() for time, _ in elements][2:])
        declared, body = [], []
        for n, extent in enumerate(extents):
            name, default = lots.choice(list(streams)), self.merged and n == 0
            declared.append(f"FROM {'' if default else 'NAMED '}WINDOW <urn:w{n}> ON <{name}> [{extent}]")
            patterns = self._patterns(_held(extent, streams[name], now) or [streams[name][0][1]])
            body += [patterns if default else f"WINDOW <urn:w{n}> {{ {patterns} }}"]
        if lots.random() < 0.5:
            body += self._static(graphs)
        if lots.random() < 0.3:
            body.append(self._filter())
        if lots.random() < 0.15:
            body.append(self._computed())
        if lots.random() < 0.2:
            lots.shuffle(body)
        for name in [*self.values]:
            if name not in " ".join(body):
                del self.values[name]
        declared.append("FROM NAMED <urn:g>")
        report = lots.choice(REPORTS) if lots.random() < 0.25 else ""
        every = f"COMPUTED EVERY {lots.choice([700, 1000])}ms " if lots.random() < 0.07 and not report else ""
        operator = lots.choice(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])
        head, tail = self._head()
        where = f"WHERE {{ {' '.join(body)} }}{tail}"
        return "\n".join([f"REGISTER {operator} <urn:out> {every}AS {head}", *declared, report, where])

    def _head(self) -> tuple[str, str]:
        """What it gives, and what stands behind the pattern."""
        lots, names = self.lots, [name for name in self._seen if name not in self.unsure]
        kind = lots.choice(["select"] * 5 + ["grouped", "grouped", "computed", "construct", "ask"])
        if not names or kind == "select":
            return f"SELECT {self._shown(names)}", ""
        x, y = lots.choice(names), lots.choice(names)
        if kind == "ask":
            return "ASK", ""
        if kind == "construct":
            return f"CONSTRUCT {{ ?{x} <urn:out> ?{y} . <urn:all> ?{y} ?{x} }}", ""
        distinct = "DISTINCT " * (lots.random() < 0.3)
        if kind == "computed":
            made = lots.choice([f"STR(?{y})", f"?{y} + 1", f"IF(?{x} = ?{y}, 1, ?{y})", f"isIRI(?{y})"])
            return f"SELECT {distinct}?{x} ({made} AS ?made)", ""
        counts = [f"({self._aggregate(names)} AS ?n{n})" for n in range(lots.choice([1, 2]))]
        by = " ".join(f"?{name}" for name in self._sampled(names, lots.choice([0, 1, 1, 2])))
        return f"SELECT {distinct}{by} {' '.join(counts)}", f" GROUP BY {by}" * bool(by)

    def _aggregate(self, names: Sequence[str]) -> str:
        lots = self.lots
        name = lots.choice(["COUNT", "COUNT", "COUNT", "SUM", "MIN", "MAX", "AVG"])
        if name == "COUNT" and lots.random() < 0.3:
            return "COUNT(*)"
        return f"{name}({'DISTINCT ' * (lots.random() < 0.3)}?{lots.choice(names)})"

    def _shown(self, names: Sequence[str]) -> str:
        distinct = "DISTINCT " if self.lots.random() < 0.35 else ""
        if not names or self.lots.random() < (0.02 if self.unsure else 0.3):
            return distinct + "*"
        return distinct + " ".join(f"?{name}" for name in self._sampled(names, self.lots.randint(1, len(names))))

    def _patterns(self, triples: Sequence[Triple]) -> str:
        """One to three triples of these, mostly such as share a term with what is there already."""
        found = []
        for _ in range(self.lots.choice([1, 1, 1, 1, 2, 2, 3])):
            found.append(self._pattern(self._near(triples)))
        if self.lots.random() < 0.15 and self.values:
            found.append(self._filter())
        return " ".join(found)

    def _near(self, triples: Sequence[Triple]) -> Triple:
        near = [t for t in triples if {t.subject, t.object} & self.names.keys()]
        return self.lots.choice(near if near and self.lots.random() < 0.9 else list(triples))

    def _pattern(self, triple: Triple) -> str:
        lots = self.lots
        predicate = f"{triple.predicate}" if lots.random() < 0.8 else self._variable(triple.predicate)
        subject, object_ = self._place(triple.subject, 0.9), self._place(triple.object, 0.85)
        return f"{subject} {predicate} {object_} ."

    def _place(self, term: object, share: float) -> str:
        """A variable, or the term itself, which a blank node cannot be."""
        if isinstance(term, BlankNode | Triple) or self.lots.random() < share:
            return self._variable(term)
        return str(term)

    def _variable(self, term: object) -> str:
        """The one that has this term already, or now and then another one."""
        if term not in self.names or self.lots.random() < 0.15:
            n = len(self.values)
            name = f"v{n}"
            if self.lots.random() < 0.06 and term not in self.names:
                self.values[f"_:b{n}"] = term  # which is a variable that nobody sees, and stands once
                return f"_:b{n}"
            self.names[term], self.values[name] = name, term
        return f"?{self.names[term]}"

    # ------------------------------------------------------------ static parts

    def _static(self, graphs: dict[str, list[Quad]]) -> Iterator[str]:
        lots = self.lots
        for _ in range(lots.choice([1, 1, 2])):
            kinds = (
                ["graph", "values", "optional", "minus", "union", "select", "bind"]
                + ["plain"] * (0 if self.merged or "" not in graphs else 4)
                + ["graph"] * 2
            )
            yield getattr(self, f"_{lots.choice(kinds)}")(graphs)

    def _plain(self, graphs: dict[str, list[Quad]]) -> str:
        triples = [quad.triple for quad in graphs[""]]
        return " ".join(self._pattern(self._near(triples)) for _ in range(self.lots.choice([1, 1, 2])))

    def _graph(self, graphs: dict[str, list[Quad]]) -> str:
        name = "?g" if self.lots.random() < 0.1 else "<urn:g>"
        return f"GRAPH {name} {{ {self._plain({'': graphs['urn:g']})} }}"

    def _values(self, graphs: dict[str, list[Quad]]) -> str:
        del graphs
        names = self._some(self.lots.choice([1, 1, 2])) or [self._variable(NAMES[0])[1:]]
        rows = [[self._like(self.values[name]) for name in names] for _ in range(self.lots.choice([1, 2, 3]))]
        written = " ".join(f"({' '.join('UNDEF' if t is None else str(t) for t in row)})" for row in rows)
        return f"VALUES ({' '.join(f'?{name}' for name in names)}) {{ {written} }}"

    def _optional(self, graphs: dict[str, list[Quad]]) -> str:
        first, known = self._graph(graphs), set(self.values)
        second = self._graph(graphs)
        self.unsure |= self.values.keys() - known
        return f"{first} OPTIONAL {{ {second} }}"

    def _minus(self, graphs: dict[str, list[Quad]]) -> str:
        return self._optional(graphs).replace("OPTIONAL", "MINUS")

    def _union(self, graphs: dict[str, list[Quad]]) -> str:
        known = set(self.values)
        first, second = self._graph(graphs), self._graph(graphs)
        self.unsure |= self.values.keys() - known
        return f"{{ {first} }} UNION {{ {second} }}"

    def _select(self, graphs: dict[str, list[Quad]]) -> str:
        inner = self._graph(graphs)
        names = [name for name in self._seen if f"?{name} " in inner]
        if not names:
            return inner
        return f"{{ SELECT DISTINCT {' '.join(f'?{name}' for name in names)} {{ {inner} }} }}"

    def _bind(self, graphs: dict[str, list[Quad]]) -> str:
        inner = self._graph(graphs)
        name = f"v{len(self.values)}"
        of = [each for each in self._seen if f"?{each} " in inner]
        if not of:
            return inner
        self.values[name] = None
        return f"{inner} BIND(STR(?{self.lots.choice(of)}) AS ?{name})"

    def _computed(self) -> str:
        """BIND over what windows have, mostly."""
        x, y = (self._some(2) * 2 or ["v0", "v0"])[:2]
        name = f"v{len(self.values)}"
        made = self.lots.choice(
            [f"STR(?{x})", f"?{x} + 1", f"?{y}", f"IF(?{x} = ?{y}, ?{x}, ?{y})", f"CONCAT(STR(?{x}), 'x')"]
        )
        self.values[name] = None
        return f"BIND({made} AS ?{name})"

    def _like(self, term: object) -> object:
        """The term, in another spelling, another one, or none."""
        lots = self.lots
        if lots.random() < 0.1:
            return None
        if isinstance(term, BlankNode | Triple) or term is None or lots.random() < 0.3:
            return self.lots.choice(NAMES)
        spellings = next((list_ for list_ in SPELT if term in list_), [term])
        return lots.choice(spellings)

    # ------------------------------------------------------------ filters

    def _filter(self) -> str:
        lots = self.lots
        x, y = (self._some(2) * 2 or ["v0", "v0"])[:2]
        a = self._like(self.values.get(x)) or NAMES[0]
        test = lots.choice([
            f"?{x} != ?{y}", f"?{x} = ?{y}", f"?{x} != ?{y}", f"?{x} = {a}", f"?{x} != {a}",
            f"isIRI(?{x})", f"!isBlank(?{x})",
            f"?{x} < 3 || isIRI(?{x})", f"?{x} <= ?{y} || isIRI(?{y})", f'STR(?{x}) != "urn:a"',
            f"sameTerm(?{x}, ?{y}) || isIRI(?{x})",
            f"?{x} IN ({a}, <urn:b>, <urn:c>)", f'LANG(?{x}) = "en" || true', f"COALESCE(?{x} + 1, 5) > 2", "1 < 2",
        ])  # fmt: skip
        return f"FILTER({test})"

    @property
    def _seen(self) -> list[str]:
        return [name for name in self.values if not name.startswith("_:")]

    def _some(self, count: int) -> list[str]:
        return self._sampled(self._seen, count)

    def _sampled(self, names: Sequence[str], count: int) -> list[str]:
        return self.lots.sample(names, min(count, len(names)))


def _held(extent: str, elements: Elements, now: int) -> Sequence[Triple]:
    """About what a window holds."""
    came = [(time, triple) for time, triple in elements if time <= now]
    if "ELEMENTS" in extent:
        return [triple for _, triple in came[-int(extent.split()[1]) :]]
    if extent == "NOW":
        return [triple for time, triple in came if time == now]
    return [
        triple for time, triple in came if now - (2000 if "PT3S" in extent else 1000) <= time - 1000 * ("TO" in extent)
    ]


def lots_start(lots: random.Random) -> int:
    """When a stream begins."""
    return lots.choice([0, 300, 1000, 1700])
