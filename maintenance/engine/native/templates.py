"""Instances of one template: queries that differ only in constants share one plan; the constants form a relation.

Templates are recognised by text. One text is parsed for all instances, with marks in place of the differing constants.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.join_inputs import Relation
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.columns.window_slots import IntervalRows
from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.native.moving_query import MovingAnswers, MovingQuery, moves_with_elements
from freshkeeper.maintenance.engine.native.moving_window import MovingWindow
from freshkeeper.maintenance.engine.native.native_plan import NativePlan, StaticJoin, Terms, plan_of
from freshkeeper.maintenance.engine.native.native_query import output_variables
from freshkeeper.maintenance.engine.native.plan_head import NotNativeError
from freshkeeper.maintenance.engine.native.static_parts import relations, solve_join
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.windows import windows_of
from freshkeeper.maintenance.query.model import Form, Query

INSTANCE = " instance"
CONSTANT = re.compile(r'"(?:[^"\\\n\r]|\\.)*"|<[A-Za-z][A-Za-z0-9+.\-]*:[^<>"{}|^`\\\x00-\x20]*>')
"""Matches a literal or an IRI, in most places where a query can have one."""
MARK = "x-freshkeeper-constant:"


@dataclass(frozen=True)
class QueryTemplate:
    """Queries that differ only in constants of one static part."""

    text: str
    """the common text, with marks in place of the differing constants"""
    query: Query
    plan: NativePlan
    part: int
    """the number of the static part with the marks"""
    names: tuple[str, ...]
    """names of the queries"""
    constants: tuple[tuple[Term, ...], ...]
    """per mark, one constant for each query"""


def templates_of(
    texts: Mapping[str, str], read: Callable[[str], Query], graphs: Collection[str] = ()
) -> list[QueryTemplate]:
    """Return the templates of many queries over static graphs of these names; other queries remain on their own."""
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(CONSTANT.sub(lambda found: found[0][0] + found[0][-1], text), []).append(name)
    found: list[QueryTemplate] = []
    for names in groups.values():
        found += _templates({name: texts[name] for name in names}, read, graphs)
    return found


def _templates(
    texts: Mapping[str, str], read: Callable[[str], Query], graphs: Collection[str]
) -> Iterator[QueryTemplate]:
    """Yield the templates of texts that differ only in constants."""
    each = list(zip(*(CONSTANT.findall(text) for text in texts.values()), strict=True))
    differing = {f"{MARK}{n}": column for n, column in enumerate(each) if len(set(column)) > 1}
    if not differing:
        return
    text = _marked(next(iter(texts.values())), differing)
    try:
        query = read(text)
        plan = plan_of(query, graphs)
        owners = _owners(query, plan, differing)
        apart = [column for mark, column in differing.items() if mark not in owners]
        constants = () if apart else tuple(map(_terms, differing.values()))
    # Not a template: each query is then parsed on its own and reports its own mistakes.
    except (FreshkeeperError, NotNativeError, SyntaxError, ValueError):
        return
    if apart:
        # Constants that differ elsewhere cannot be lifted out: group the queries by these and try again.
        parted: dict[object, dict[str, str]] = {}
        for key, name in zip(zip(*apart, strict=True), texts, strict=True):
            parted.setdefault(key, {})[name] = texts[name]
        for one in parted.values():
            yield from _templates(one, read, graphs)
    elif len({*owners.values()}) == 1:
        yield QueryTemplate(
            text, query, plan=plan, part=next(iter(owners.values())), names=tuple(texts), constants=constants
        )


def _marked(text: str, marks: Collection[str]) -> str:
    """Return the text with marks in place of the differing constants."""
    places = count()

    def marked(found: re.Match[str]) -> str:
        mark = f"{MARK}{next(places)}"
        if mark in marks:
            return f"{found[0][0]}{mark}{found[0][-1]}"
        return found[0]

    return CONSTANT.sub(marked, text)


def _terms(written: Sequence[str]) -> tuple[Term, ...]:
    document = "".join(f"_:a <a:> {term} .\n" for term in written)
    return tuple(quad.object for quad in parse(document.encode(), format=RdfFormat.N_TRIPLES))


def _owners(query: Query, plan: NativePlan, marks: Collection[str]) -> dict[str, int]:
    """Return the static part in which each mark is the subject or object of a triple pattern."""
    if not moves_with_elements(query) or query.form is not Form.SELECT or plan.services:
        raise NotNativeError("it cannot be an instance of a template")
    if MARK in query.expression.prologue.text:
        raise NotNativeError("a prefix differs")
    if plan.head.grouping is not None and not (plan.head.grouping.keys and plan.head.grouping.counts):
        raise NotNativeError("it has aggregates without keys, or other than COUNT")
    return {mark: n for n, join in _joins(plan) for mark in map(_mark, _ends(join)) if mark in marks}


def _joins(plan: NativePlan) -> Iterator[tuple[int, StaticJoin]]:
    for n, part in enumerate(plan.statics):
        if part.join is None:
            raise NotNativeError("a static part is more than a join")
        yield n, part.join


def _ends(join: StaticJoin) -> Iterator[str | Term]:
    """Yield the subjects and objects of the patterns."""
    for _, (s, _, o) in join.patterns:
        yield from (s, o)


def _mark(term: str | Term) -> str:
    """Return the text of a term that may be a mark, otherwise ""."""
    plain = isinstance(term, NamedNode) or (isinstance(term, Literal) and str(term) == f'"{term.value}"')
    if plain and isinstance(term, NamedNode | Literal):
        return term.value
    return ""


def template_query(template: QueryTemplate, graphs: StaticGraphs, start: int = 0) -> "TemplateQuery":
    """Create one query that answers for all instances; evaluations of an instance without answers are left out."""
    query, plan, dictionary = template.query, template.plan, graphs.dictionary
    marks = dictionary.encode([NamedNode(f"freshkeeper:instance/{n}") for n in range(len(template.names))])
    lifted, given = _lifted(template), _constants(template, marks, dictionary)
    others = [part for n, part in enumerate(plan.statics) if n != template.part]

    def solved() -> list[Relation]:
        return [*relations(query, others, graphs), solve_join(query, lifted, graphs, [given])]

    windows = [MovingWindow(window, IntervalRows(dictionary)) for window in query.windows]
    moving = MovingAnswers(
        query=query,
        plan=plan,
        dictionary=dictionary,
        variables=output_variables(query),
        windows=windows,
        relations=solved(),
        extra=(INSTANCE,),
    )
    graphs.watch(moving, lambda moving: moving.replace(solved()))
    contents = windows_of(query, start, dictionary)
    known = {mark: (n, name) for n, (mark, name) in enumerate(zip(marks.tolist(), template.names, strict=True))}
    return TemplateQuery(
        query,
        contents,
        None,
        start=start,
        name=template.names[0],
        dictionary=dictionary,
        moving=moving,
        quiet=True,
        instances=known,
    )


def _constants(template: QueryTemplate, marks: Ints, dictionary: Dictionary) -> Relation:
    """Return the constants of every instance as a relation."""
    names = (f" constant{n}" for n in range(len(template.constants)))
    found = Relation((*names, INSTANCE), np.stack([*map(dictionary.encode, template.constants), marks]))
    dictionary.keep(found)  # they are needed again whenever a graph changes
    return found


def _lifted(template: QueryTemplate) -> StaticJoin:
    """Return the static part with variables in place of marks."""
    join = template.plan.statics[template.part].join
    assert join is not None
    order = dict.fromkeys(sorted((m for m in map(_mark, _ends(join)) if m.startswith(MARK)), key=_number))
    names = {mark: f" constant{n}" for n, mark in enumerate(order)}
    changed: list[tuple[str, Terms]] = []
    for graph, (s, p, o) in join.patterns:
        changed.append((graph, (names.get(_mark(s), s), p, names.get(_mark(o), o))))
    return StaticJoin((*join.variables, INSTANCE), tuple(changed), join.expressions)


def _number(mark: str) -> int:
    return int(mark.removeprefix(MARK))


@dataclass(eq=False)
class TemplateQuery(MovingQuery):
    """A query whose answers include the instance that they belong to."""

    instances: Mapping[int, tuple[int, str]] = field(kw_only=True)
    """by the id of an instance: its position and its name"""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.instances.values())

    def _results_at(self, ticks: Ints, at: Ints, rows: Ints) -> Iterator[Result]:
        """Yield a result for every evaluation of an instance that has answers."""
        if not at.size:
            return
        each, which = np.unique(rows[-1], return_inverse=True)
        places = np.array([self.instances[id][0] for id in each.tolist()])[which]
        order = np.lexsort((places, at))
        at, rows, places = at[order], rows[:, order], places[order]
        starts = np.flatnonzero(np.append(True, (at[1:] != at[:-1]) | (places[1:] != places[:-1])))
        answers, ends, ticking = self._answers_of(rows[:-1]), [*starts[1:].tolist(), at.size], at[starts]
        told = zip(
            starts.tolist(), ends, ticking.tolist(), ticks[ticking].tolist(), rows[-1, starts].tolist(), strict=True
        )
        for first, end, tick, now, instance in told:
            if self.done is None or now > self.done:
                yield self._result(tick, now, answers.part(first, end), self.instances[instance][1])
