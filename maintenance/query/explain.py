"""The meaning of a query, as data and as text: its quadruple, its windows, and the split of its SERVICE patterns."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from textwrap import indent
from typing import Any

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.query.model import Operator, Query, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.service_split import split_of
from freshkeeper.maintenance.query.syntax.query_errors import SplitError

Volatile = Mapping[str, Collection[str]]
"""Volatile predicates by endpoint IRI."""

REPORTS = {
    Report.ON_WINDOW_CLOSE: "a window closes",
    Report.ON_CONTENT_CHANGE: "the content of a window changes",
    Report.PERIODIC: "a period has passed",
    Report.NON_EMPTY: "a window is not empty",
}
OPERATORS = {
    Operator.RSTREAM: "all answers of an evaluation",
    Operator.ISTREAM: "the answers that the evaluation before did not have",
    Operator.DSTREAM: "the answers that only the evaluation before had",
}


def explain(query: Query, volatile: Volatile | None = None) -> dict[str, Any]:
    """Return the quadruple (SE, SDS, ET, QF), the operator, the output and the SERVICE patterns, ready for JSON."""
    dataset = query.dataset
    return {
        "dialect": query.dialect,
        "output": query.output,
        "QF": query.form.value,
        "R2S": query.operator.value if _is_continuous(query) else None,
        "ET": {
            "report": list(map(str, query.times.report)),
            "every_ms": query.times.every,
            "when": when(query),
        },
        "SDS": {
            "default_graphs": list(dataset.default_graphs),
            "merged_windows": _names(dataset.merged_windows),
            "named_graphs": list(dataset.named_graphs),
            "windows": _windows(query),
        },
        "SE": query.sparql,
        "services": _services(query, volatile or {}),
    }


def _names(windows: Iterable[StreamWindow]) -> list[str]:
    return [window.name for window in windows]


def _windows(query: Query) -> list[dict[str, object]]:
    return [_window(window, query) for window in query.dataset.windows]


def _services(query: Query, volatile: Volatile) -> list[dict[str, object]]:
    return [_service(query, service, volatile) for service in query.services]


def _is_continuous(query: Query) -> bool:
    return bool(query.windows) or query.times.every is not None


def when(query: Query) -> str:
    """Return in words at which instants the query is evaluated and which of them it reports (ET)."""
    if not _is_continuous(query):
        return "once: it has no window"
    triggers = [REPORTS[report] for report in REPORTS if report in query.times.report]
    sentence = "whenever " + " and ".join(triggers)
    if query.times.every is None:
        return sentence
    return sentence.replace(REPORTS[Report.PERIODIC], f"{to_iso(query.times.every)} has passed")


def _window(window: StreamWindow, query: Query) -> dict[str, object]:
    return {
        "name": window.name,
        "stream": window.stream,
        "named": window.is_named,
        "kind": window.kind.value,
        "range": window.range,
        "step": window.step,
        "t0_ms": window.t0,
        "lag_ms": window.lag,
        "closure": window.closure.value if window.kind is WindowKind.TIME else None,
        "variables": sorted(query.window_variables.get(window.name, ())),
    }


def _service(query: Query, service: ServicePattern, volatile: Volatile) -> dict[str, object]:
    data: dict[str, object] = {
        "endpoint": service.endpoint,
        "endpoint_variable": service.endpoint_variable,
        "silent": service.silent,
        "variables": list(service.variables),
        "predicates": list(service.predicates),
        "pattern": service.text,
        "split": None,
        "split_error": None,
    }
    if service.endpoint is not None and service.endpoint in volatile:
        try:
            parts = split_of(query, service, volatile[service.endpoint])
        except SplitError as error:
            return {**data, "split_error": str(error)}
        data["split"] = {
            "SN": list(parts.sn),
            "SR": list(parts.sr),
            "key": list(parts.key),
            "values": list(parts.values),
            "static": parts.static,
            "dynamic": parts.dynamic,
            "edge_query": None if parts.one_to_one else parts.edge_query(),
            "refresh_query": parts.refresh_query(),
        }
    return data


def explain_text(query: Query, volatile: Volatile | None = None) -> str:
    """Return the explanation as text, one section per part of the quadruple."""
    return "\n".join(_lines(query, explain(query, volatile))) + "\n"


def _lines(query: Query, data: Mapping[str, Any]) -> Iterator[str]:
    head = f"{query.dialect} query"
    if query.output is not None:
        head += f", output <{query.output}>"
    yield head
    yield f"QF   {query.form}"
    if _is_continuous(query):
        yield f"R2S  {query.operator}: {OPERATORS[query.operator]}"
    policies = ""
    if query.times.report:
        policies = f"  ({', '.join(query.times.report)})"
    yield f"ET   {when(query)}{policies}"
    yield from _dataset_lines(query)
    yield "SE"
    yield indent(query.sparql, "     ")
    for service in data["services"]:
        yield from _service_lines(service)


def _dataset_lines(query: Query) -> Iterator[str]:
    dataset = query.dataset
    default = [f"<{graph}>" for graph in dataset.default_graphs] or ["the data loaded as default"]
    default += [f"window <{window.name}>" for window in dataset.merged_windows]
    yield f"SDS  default graph: {', '.join(default)}"
    yield from (f"     graph <{graph}>" for graph in dataset.named_graphs)
    for window in dataset.windows:
        mode = "named" if window.is_named else "merged"
        yield f"     window <{window.name}> on <{window.stream}>, {mode}"
        yield f"         {extent(window)}"
        variables = sorted(query.window_variables.get(window.name, ()))
        yield f"         binds {_variables(variables) or 'nothing'}"


def extent(window: StreamWindow) -> str:
    """Return the content of a window in words."""
    start = ""
    if window.t0 is not None:
        start = f", t0 = {window.t0}"
    if window.kind is WindowKind.NOW:
        return f"the elements of the instant of evaluation{start}"
    if window.kind is WindowKind.ALL:
        return f"every element so far{start}"
    if window.kind is WindowKind.ELEMENTS:
        return f"{_element_extent(window)}{start}"
    return f"{_time_extent(window)}{start}"


def _element_extent(window: StreamWindow) -> str:
    last = f"the last {window.range} elements"
    if window.range == 1:
        last = "the last element"
    step = f"every {window.step} elements"
    if window.step == 1:
        step = "with every element"
    return f"{last}, {step}"


def _time_extent(window: StreamWindow) -> str:
    begin = f"t − {to_iso((window.range or 0) + window.lag)}"
    end = "t"
    if window.lag:
        end = f"t − {to_iso(window.lag)}"
    interval = f"[{begin}, {end})"
    if window.closure is Closure.LEFT_OPEN:
        interval = f"({begin}, {end}]"
    step = "with every element"
    if window.step is not None:
        step = f"every {to_iso(window.step)}"
    return f"the elements with time in {interval}, {step}"


def _service_lines(service: Mapping[str, Any]) -> Iterator[str]:
    endpoint = f"?{service['endpoint_variable']}"
    if service["endpoint"] is not None:
        endpoint = f"<{service['endpoint']}>"
    keyword = "SERVICE SILENT" if service["silent"] else "SERVICE"
    yield f"{keyword} {endpoint}"
    yield f"     variables {_variables(service['variables']) or 'none'}"
    parts = service["split"]
    if service["split_error"] is not None:
        yield f"     no split: {service['split_error']}"
    elif parts is not None:
        yield f"     V^SN {_variables(parts['SN'])}   V^SR {_variables(parts['SR'])}   key {_variables(parts['key'])}"
        yield f"     static  {parts['static'] or 'nothing: the join is 1:1'}"
        yield f"     dynamic {parts['dynamic']}"
        if parts["edge_query"]:
            yield f"     edges   {_one_line(parts['edge_query'])}"
        yield f"     refresh {_one_line(parts['refresh_query'])}"
    else:
        yield "     not split: name the volatile predicates of this source, among"
        yield from (f"         <{predicate}>" for predicate in service["predicates"])


def _variables(names: Iterable[str]) -> str:
    return " ".join(f"?{name}" for name in names)


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))
