"""Instances of one template: queries that are equal but for constants are one plan, whose constants are a relation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from pyoxigraph import NamedNode

from freshkeeper.maintenance.native.interval_rows import IntervalRows
from freshkeeper.maintenance.native.join_inputs import Relation
from freshkeeper.maintenance.native.moving_query import MovingAnswers, MovingQuery, moves_with_elements
from freshkeeper.maintenance.native.moving_window import MovingWindow
from freshkeeper.maintenance.native.plan import Plan, StaticJoin, Terms, plan_of
from freshkeeper.maintenance.native.plan_head import NotNativeError
from freshkeeper.maintenance.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.native.static_parts import joined, relations
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.rsp.evaluator import Term
from freshkeeper.maintenance.rsp.local_query import LocalQuery
from freshkeeper.maintenance.rsp.r2s import Result
from freshkeeper.maintenance.rsp.window_kinds import content_of
from freshkeeper.policies.arrays import Ints

INSTANCE = " instance"
Constants: TypeAlias = tuple[Term, ...]


@dataclass(frozen=True)
class Instance:
    """One query of a template."""

    name: str
    query: Query
    plan: Plan
    constants: Constants
    """subjects and objects that are no variables, of all static parts"""


@dataclass(frozen=True)
class Template:
    """Queries that differ in constants of one static part alone, or one query."""

    instances: tuple[Instance, ...]
    part: int = 0
    """the number of the static part"""
    differing: tuple[int, ...] = ()
    """which constants differ"""


def templates_of(queries: Mapping[str, Query]) -> tuple[list[Template], dict[str, Query]]:
    """The templates of many queries, and the queries that belong to none."""
    groups: dict[object, list[Instance]] = {}
    others: dict[str, Query] = {}
    for name, query in queries.items():
        try:
            plan = plan_of(query)
            groups.setdefault(_shape(query, plan), []).append(Instance(name, query, plan, tuple(_constants(plan))))
        except NotNativeError:
            others[name] = query
    found = []
    for instances in groups.values():
        if len(instances) > 1 and (template := _template(tuple(instances))) is not None:
            found.append(template)
        else:
            others |= {each.name: each.query for each in instances}
    return found, others


def _shape(query: Query, plan: Plan) -> object:
    """What is the same in all instances of a template."""
    if not moves_with_elements(query) or query.form is not Form.SELECT or any(p.join is None for p in plan.statics):
        raise NotNativeError("it is no instance")
    if plan.head.grouping is not None and not plan.head.grouping.keys:
        raise NotNativeError("it counts everything")
    joins = [part.join for part in plan.statics if part.join is not None]
    parts = tuple((join.variables, tuple(map(_opened, join.patterns)), join.expressions) for join in joins)
    dataset = (query.dataset.default_graphs, query.dataset.named_graphs, query.windows)
    prologue = query.expression.prologue.text
    return plan.patterns, parts, plan.expressions, plan.kept, plan.head, dataset, query.times, query.operator, prologue


def _opened(pattern: tuple[str, Terms]) -> tuple[object, ...]:
    graph, (s, p, o) = pattern
    return graph, s if isinstance(s, str) else None, p, o if isinstance(o, str) else None


def _constants(plan: Plan) -> Iterator[Term]:
    for _, (s, _, o) in _patterns(plan):
        yield from (term for term in (s, o) if not isinstance(term, str))


def _patterns(plan: Plan) -> Iterator[tuple[int, Terms]]:
    """The triple patterns of all static parts, with the numbers of these."""
    for n, part in enumerate(plan.statics):
        yield from ((n, terms) for _, terms in (part.join.patterns if part.join is not None else ()))


def _template(instances: tuple[Instance, ...]) -> Template | None:
    """Nothing where constants differ in more than one static part: their instances would have to be joined."""
    each = [one.constants for one in instances]
    differing = tuple(n for n in range(len(each[0])) if len({constants[n] for constants in each}) > 1)
    owners = [n for n, (s, _, o) in _patterns(instances[0].plan) for term in (s, o) if not isinstance(term, str)]
    parts = {owners[n] for n in differing}
    return Template(instances, parts.pop(), differing) if len(parts) == 1 else None


def template_query(template: Template, graphs: StaticGraphs, variables: tuple[str, ...], start: int = 0) -> MovingQuery:
    """One query that answers for all instances; evaluations of an instance without answers are left out."""
    query, plan, dictionary = template.instances[0].query, template.instances[0].plan, graphs.dictionary
    marks = dictionary.encode([NamedNode(f"freshkeeper:instance/{n}") for n in range(len(template.instances))])
    names = tuple(f" constant{n}" for n in template.differing)
    columns = [dictionary.encode([one.constants[n] for one in template.instances]) for n in template.differing]
    given = Relation((*names, INSTANCE), np.stack([*columns, marks]))
    others, lifted = [part for n, part in enumerate(plan.statics) if n != template.part], _lifted(template, names)

    def solved() -> list[Relation]:
        return [*relations(query, others, graphs), joined(query, lifted, graphs, [given])]

    windows = [MovingWindow(window, IntervalRows(dictionary)) for window in query.windows]
    moving = MovingAnswers(query, plan, dictionary, variables, windows, solved(), (INSTANCE,))
    graphs.watch(lambda: moving.replace(solved()))
    contents = [content_of(window, start) for window in query.windows]
    known = {mark: (n, one.name) for n, (mark, one) in enumerate(zip(marks.tolist(), template.instances, strict=True))}
    return TemplateQuery(
        query, contents, LocalQuery(query), graphs, start, template.instances[0].name, follow=lambda *_: None,
        moving=moving, quiet=True, instances=known,
    )  # fmt: skip


def _lifted(template: Template, names: Sequence[str]) -> StaticJoin:
    """The static part with names in place of the constants that differ."""
    plan, number = template.instances[0].plan, 0
    lifted = dict(zip(template.differing, names, strict=True))
    join = plan.statics[template.part].join
    assert join is not None
    changed: list[tuple[int, Terms]] = []
    for n, (s, p, o) in _patterns(plan):
        ends: list[str | Term] = []
        for term in (s, o):
            ends.append(term if isinstance(term, str) else lifted.get(number, term))
            number += not isinstance(term, str)
        changed.append((n, (ends[0], p, ends[1])))
    terms = [each for n, each in changed if n == template.part]
    patterns = tuple((graph, each) for (graph, _), each in zip(join.patterns, terms, strict=True))
    return StaticJoin((*join.variables, INSTANCE), patterns, join.expressions)


@dataclass(eq=False)
class TemplateQuery(MovingQuery):
    """A query whose answers say which instance they are of."""

    instances: Mapping[int, tuple[int, str]] = field(kw_only=True)
    """by the id that stands for it: its place among them, and its name"""

    def _told(self, ticks: Ints, at: Ints, rows: Ints) -> Iterator[Result]:
        """A result for each evaluation of an instance that has answers."""
        if not at.size:
            return
        places = np.array([self.instances[id][0] for id in rows[-1].tolist()])
        order = np.lexsort((places, at))
        at, rows, places = at[order], rows[:, order], places[order]
        starts = np.flatnonzero(np.append(True, (at[1:] != at[:-1]) | (places[1:] != places[:-1])))
        for first, end in zip(starts.tolist(), [*starts[1:].tolist(), at.size], strict=True):
            tick, (_, name) = int(at[first]), self.instances[int(rows[-1, first])]
            if self.done is None or ticks[tick] > self.done:
                yield replace(self._result(tick, int(ticks[tick]), rows[:-1, first:end]), query=name)
