"""Explains which evaluator runs a query, as data and as text: the native plan, or why there is none."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.engine.columns.join_inputs import MOST_KEYS
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.native.native_plan import NativePlan, StaticPart, WindowPattern, plan_of
from freshkeeper.maintenance.engine.native.plan_head import Aggregate, EvaluatorKind, Grouping, NotNativeError
from freshkeeper.maintenance.engine.native.static_parts import relations
from freshkeeper.maintenance.engine.service_join.lineage import trace
from freshkeeper.maintenance.query.model import Query

POSITIONS = ("subject", "predicate", "object")
MOST_INPUTS = 8
"""With more inputs the possible indexes are not listed, because there are too many join orders."""
Input = WindowPattern | StaticPart


def explain_plan(
    query: Query, graphs: Collection[str] = (), wanted: EvaluatorKind = EvaluatorKind.AUTO
) -> dict[str, object]:
    """Return which evaluator runs a query over static graphs of these names, ready for JSON.

    For loaded graphs (`StaticGraphs`) the number of solutions of each static part is included.
    """
    if wanted is EvaluatorKind.SNAPSHOT:
        return _snapshot("--evaluator snapshot was given", None)
    try:
        plan = plan_of(query, graphs)
        if plan.services and trace(query).doubtful:
            raise NotNativeError("none of its answers is certain")
        return {"kind": EvaluatorKind.NATIVE.value, **_plan(query, plan, graphs)}
    except NotNativeError as reason:
        return _snapshot(str(reason), query.place(reason.element) if reason.element else None)


def _snapshot(reason: str, place: tuple[int, int] | None) -> dict[str, object]:
    line, column = place or (None, None)
    return {"kind": EvaluatorKind.SNAPSHOT.value, "reason": reason, "line": line, "column": column}


def _plan(query: Query, plan: NativePlan, graphs: Collection[str]) -> dict[str, object]:
    inputs: list[Input] = [*plan.patterns, *plan.statics]
    described = [_input(query, n, inputs) for n in range(len(inputs))]
    for static, size in zip(described[len(plan.patterns) :], _sizes(query, plan, graphs), strict=False):
        static["solutions"] = size
    services = [service.endpoint for service in query.outer_services]
    return {
        "inputs": described,
        "expressions": [" ".join(each.text.split()) for each in plan.expressions],
        "services": services,
        "kept": list(plan.projection),
        "groups": None if plan.head.grouping is None else _groups(plan.head.grouping),
    }


def _sizes(query: Query, plan: NativePlan, graphs: Collection[str]) -> Iterator[int]:
    """Yield the number of solutions of each static part, if all graphs of the query are loaded."""
    named = {*query.dataset.default_graphs, *query.dataset.named_graphs}
    if isinstance(graphs, StaticGraphs) and named <= set(graphs):
        yield from (relation.rows.shape[1] for relation in relations(query, plan.statics, graphs))


def _groups(grouping: Grouping) -> dict[str, object]:
    made = [f"{one.function}({_aggregated(one)}) AS ?{one.name}" for one in grouping.aggregates]
    return {"keys": list(grouping.keys), "aggregates": made}


def _aggregated(one: Aggregate) -> str:
    return f"{'DISTINCT ' if one.distinct else ''}{'*' if one.variable is None else f'?{one.variable}'}"


def _input(query: Query, n: int, inputs: Sequence[Input]) -> dict[str, object]:
    one = inputs[n]
    indexes = [list(index) for index in _indexes(n, inputs)]
    if isinstance(one, WindowPattern):
        pattern = [f"?{term}" if isinstance(term, str) else text_of(term) for term in one.terms]
        return {"window": query.windows[one.window].name, "pattern": pattern, "indexes": indexes}
    text = " ".join(element.flat for element in one.elements)
    return {"static": text, "variables": list(one.variables), "indexes": indexes}


def _indexes(n: int, inputs: Sequence[Input]) -> Iterator[tuple[str, ...]]:
    """Yield the indexes by which an input may be probed: constants, and what can be bound at its turn."""
    if len(inputs) > MOST_INPUTS:
        return
    turns = {bound for bound, following in _orders(inputs) if n in following}
    yield from sorted({_index_for(inputs[n], bound) for bound in turns}, key=lambda index: (len(index), index))


def _orders(inputs: Sequence[Input]) -> Iterator[tuple[frozenset[str], list[int]]]:
    """Yield, for every reachable set of joined inputs, the bound variables and the inputs that may come next."""
    waiting = [frozenset([n]) for n, one in enumerate(inputs) if isinstance(one, WindowPattern)]
    seen: set[frozenset[int]] = set()
    while waiting:
        if (done := waiting.pop()) in seen:
            continue
        seen.add(done)
        bound = frozenset(name for n in done for name in inputs[n].variables)
        rest = [n for n in range(len(inputs)) if n not in done]
        following = [n for n in rest if not bound.isdisjoint(inputs[n].variables)] or rest
        yield bound, following
        waiting += [done | {n} for n in following]


def _index_for(one: Input, bound: frozenset[str]) -> tuple[str, ...]:
    if isinstance(one, StaticPart):
        return tuple(f"?{name}" for name in one.variables if name in bound)[:MOST_KEYS]
    pairs = zip(POSITIONS, one.terms, strict=True)
    return tuple(name for name, term in pairs if not isinstance(term, str) or term in bound)


def plan_lines(data: Mapping[str, object]) -> Iterator[str]:
    """Yield the explanation as lines of text."""
    if data["kind"] == EvaluatorKind.SNAPSHOT.value:
        yield "EVALUATOR  snapshot: SPARQL over all that the windows hold, at every evaluation"
        if data["line"] is not None:
            place = f"line {data['line']}, column {data['column']}: "
        else:
            place = ""
        yield f"     because {place}{data['reason']}"
        return
    yield "EVALUATOR  native: every arrival is joined once, at each step with the input that has the fewest matches"
    for n, one in enumerate(_list(data["inputs"]), 1):
        yield from _input_lines(n, one)
    for endpoint in _list(data["services"]):
        yield f"     then SERVICE <{endpoint}>: entries of its view (not with --fetch always or --edges refreshed)"
    for text in _list(data["expressions"]):
        yield f"     then {text}"
    kept = " ".join(f"?{name}" for name in _list(data["kept"]))
    yield f"     kept of every solution: {kept or 'only its existence'}"
    if isinstance(groups := data["groups"], Mapping):
        keys = " ".join(f"?{name}" for name in groups["keys"])
        yield f"     grouped by {keys or 'nothing'}: {', '.join(groups['aggregates']) or 'one row'}"


def _input_lines(n: int, one: Mapping[str, object]) -> Iterator[str]:
    if "window" in one:
        yield f"     {n}  window <{one['window']}>  {' '.join(_list(one['pattern']))}"
    else:
        names = " ".join(f"?{name}" for name in _list(one["variables"]))
        if "solutions" in one:
            size = f", {one['solutions']:,} solutions"
        else:
            size = ""
        yield f"     {n}  static, solved once: {names or 'its solutions alone'}{size}"
        yield f"        {one['static']}"
    indexes = [" + ".join(index) or "nothing (full scan)" for index in _list(one["indexes"])]
    if indexes:
        yield f"        probed by {'; by '.join(indexes)}"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
