"""A case through the engine, and its answers beside those of the algebra."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyoxigraph as ox
from algebra import Data, Term, TooBigError, Var, selected
from query_generator import Case
from query_text import PREFIX, E, group_text, select_text, tail_text, term_text
from terms import in_default_graph

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.maintenance_settings import DEFAULTS, MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.query.alternatives import has_inseparable
from freshkeeper.maintenance.query.model import Form
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.sources import EmbeddedSource, Source
from freshkeeper.maintenance.sources.transport import Bound, Transport
from freshkeeper.policies.registry import make

XSD = "http://www.w3.org/2001/XMLSchema#"
ENOUGH = 1000
STEP = 1000


@dataclass(eq=False)
class Remote:
    """A SPARQL service whose content changes and tells nobody; it never fails."""

    name: str
    case: Case
    _versions: dict[int, EmbeddedSource] = field(default_factory=dict)

    def __call__(self, query: str, now: int) -> list[Bound]:
        """Its solutions as it is now."""
        version = sum(t <= now for t, _ in self.case.world.remotes[self.name])
        if version not in self._versions:
            self._versions[version] = EmbeddedSource(quads(self.case.world.remote(self.name, now)))
        return self._versions[version](query, now)


@dataclass(frozen=True)
class Outcome:
    """What came of a case: fine, refused, too big, or wrong, and why."""

    kind: str
    why: str = ""
    evaluations: int = 0
    answers: int = 0
    """that are right"""
    sure: int = 0
    complete: int = 0
    """evaluations that had to be complete, and were"""
    native: bool = False
    """whether it was run by a plan"""


class FoundError(AssertionError):
    """The engine and the algebra disagree."""


def quads(graph: Any) -> list[ox.Quad]:
    """Facts for the library."""
    return [in_default_graph(triple(fact)) for fact in graph]


def triple(fact: Any) -> ox.Triple:
    """A fact for the library."""
    subject, predicate, value = (written(term) for term in fact)
    assert isinstance(subject, ox.NamedNode)
    assert isinstance(predicate, ox.NamedNode)
    return ox.Triple(subject, predicate, value)


def written(term: Term) -> ox.NamedNode | ox.Literal:
    """A term for the library."""
    return ox.NamedNode(E + str(term.value)) if term.kind == "iri" else ox.Literal(term.value)


def read(term: Any) -> Term:
    """A term of the library."""
    if isinstance(term, ox.NamedNode):
        return Term("iri", term.value.removeprefix(E))
    kind = term.datatype.value.removeprefix(XSD) if isinstance(term, ox.Literal) else "other"
    if kind == "integer":
        return Term("int", int(term.value))
    return (
        Term("bool", term.value == "true")
        if kind == "boolean"
        else Term("text" if kind == "string" else kind, term.value)
    )


def query_text(case: Case) -> str:
    """The continuous query."""
    declared = " ".join(
        f"FROM {f'NAMED WINDOW :{w.name}' if w.name else 'WINDOW'} ON :{w.stream} [RANGE {w.range}ms STEP {STEP}ms"
        f"{' CLOSURE RIGHT_OPEN' if w.right_open else ''}]"
        for w in case.windows
    )
    dataset = f"FROM NAMED :g {declared} "
    register = f"{PREFIX} REGISTER {case.operator} :out AS "
    if case.form == "SELECT":
        return register + select_text(case.query, dataset)
    template = " . ".join(" ".join(map(term_text, (t.subject, t.predicate, t.object))) for t in case.template)
    head = "ASK " if case.form == "ASK" else f"CONSTRUCT {{ {template} }} "
    return register + head + dataset + group_text(case.query.where) + tail_text(case.query)


def data_at(case: Case, now: int) -> Data:
    """All that a query is asked of, as it truly is at an instant."""
    merged = [w.content(case.world, now) for w in case.windows if not w.name]
    return Data(
        frozenset().union(*merged),
        {w.name: w.content(case.world, now) for w in case.windows if w.name},
        {"g": case.world.graph},
        {name: case.world.remote(name, now) for name in case.world.remotes},
    )


def truth(case: Case, now: int) -> Counter[object]:
    """The solutions that are right."""
    data = data_at(case, now)
    rows = selected(case.query, data, data.default)
    return Counter([bool(rows)]) if case.form == "ASK" else Counter(tuple(sorted(row.items())) for row in rows)


def shown(case: Case, solutions: Counter[object]) -> Counter[object]:
    """What a query's form makes of solutions."""
    if case.form == "CONSTRUCT":
        return Counter(set(_constructed(case, solutions)))
    return solutions


def _constructed(case: Case, solutions: Counter[Any]) -> Iterator[tuple[Term, ...]]:
    for row in map(dict, solutions):
        for pattern in case.template:
            places = (pattern.subject, pattern.predicate, pattern.object)
            terms = [row.get(at.name) if isinstance(at, Var) else at for at in places]
            bound = tuple(term for term in terms if isinstance(term, Term))
            if len(bound) == len(terms) and bound[0].kind == "iri":
                yield bound


def said(result: Any) -> Iterator[tuple[Any, float]]:
    """The answers of an evaluation as the truth is written, and how sure each is."""
    for n, answer in enumerate(result.answers):
        if isinstance(answer, ox.Triple):
            found: object = tuple(map(read, answer))
        elif isinstance(answer, bool):
            found = answer
        else:
            pairs = zip(result.variables, answer, strict=True)
            found = tuple(sorted((name, read(term)) for name, term in pairs if term is not None))
        yield found, result.fresh(n).probability


def built(case: Case, evaluator: EvaluatorKind = EvaluatorKind.AUTO) -> ContinuousQuery:
    """The query, ready to run."""
    sources = {
        E + name: Source(Transport.in_process(Remote(name, case)), tuple(E + each for each in case.volatile[name]))
        for name in case.world.remotes
    }
    settings = MaintenanceSettings(
        lambda kind: make(case.policy or DEFAULTS[kind]),
        BudgetRule.of(case.budget),
        fetch=Fetch(case.fetch),
        edges=case.edges,
    )
    graphs = {E + "g": quads(case.world.graph)}
    return build(parse(query_text(case)), graphs, sources=sources, settings=settings, evaluator=evaluator)


def running(case: Case, query: ContinuousQuery | None = None) -> Iterator[object]:
    """The engine's results."""
    query = query or built(case)
    streams = {E + name: [(t, triple(fact)) for t, fact in elements] for name, elements in case.world.streams.items()}
    return run(query, {name: elements for name, elements in streams.items() if name in query.streams})


def instants(case: Case) -> list[int]:
    """When there are evaluations: from the first element of the query's streams to the last."""
    times = [t for window in case.windows for t, _ in case.world.streams[window.stream]]
    return list(range(-(-min(times) // STEP) * STEP, max(times) + 1, STEP))


def outcome(case: Case, evaluator: EvaluatorKind = EvaluatorKind.AUTO) -> Outcome:
    """Run and compare; what is no disagreement and no refusal is a failure of its own."""
    try:
        right = {now: truth(case, now) for now in instants(case)}
    except TooBigError:
        return Outcome("too big")
    try:
        query = built(case, evaluator)
        results = list(running(case, query))
    except FreshkeeperError as error:
        return Outcome("refused", f"{type(error).__name__}: {reason(str(error))}")
    except Exception as error:
        return Outcome("crash", f"{type(error).__name__}: {error}")
    try:
        return replace(compare(case, results, right), native=query.dictionary is not None)
    except FoundError as error:
        return Outcome("wrong", str(error))


def reason(message: str) -> str:
    """What a refusal says, without names and numbers."""
    line = message.split(";")[0].splitlines()[0]
    line = re.sub(r"line \d+, column \d+: ", "", line)
    line = re.sub(r"[{(].*[})]|<[^>]*>|\?[\w]+(, \?\w+)*|:\w+", "…", line)
    return re.sub(r"\d+", "0", line)[:110]


def compare(case: Case, results: list[Any], right: dict[int, Counter[Any]]) -> Outcome:
    """Evaluation by evaluation."""
    if [result.t for result in results] != list(right):
        raise FoundError(f"evaluations at {[result.t for result in results]} instead of {list(right)}")
    sure, complete, before, certain = 0, 0, Counter[object](), True
    answers_there = sum(map(Counter.total, right.values()))
    query = parse(query_text(case))
    doubtful = has_inseparable(
        query.group, query.form is Form.SELECT and query.tree.star
    )  # given, and never said to be sure
    for result in results:
        if result.errors:
            raise FoundError(f"at {result.t}: {result.errors} requests failed, and the remotes do not fail")
        answers = list(said(result))
        wanted, true = (shown(case, each) for each in streamed(case.operator, right[result.t], before))
        known = Counter(answer for answer, fresh in answers if fresh == 1.0)
        sure += known.total()
        check(result.t, "is sure and wrong", known - true)
        whole = all(fresh == 1.0 for _, fresh in answers)
        certain_now = case.fetch == "always" or (case.fetch == "view" and case.budget >= ENOUGH and whole)
        certain_now = certain_now and not doubtful
        if certain_now and (certain or case.operator == "RSTREAM"):
            check(result.t, "is missing", wanted - known)
            check(result.t, "is too much", known - wanted)
            complete += 1
        before, certain = right[result.t], certain_now
    return Outcome("fine", evaluations=len(results), answers=answers_there, sure=sure, complete=complete)


def streamed(operator: str, now: Counter[object], before: Counter[object]) -> tuple[Counter[object], Counter[object]]:
    """What R2S gives of what is right, and of what all that it gives must be."""
    if operator == "RSTREAM":
        return now, now
    return (now - before, now) if operator == "ISTREAM" else (before - now, before)


def check(t: int, what: str, answers: Counter[object]) -> None:
    """There must be no such answers."""
    if answers:
        first, count = next(iter(answers.items()))
        raise FoundError(f"at {t}: {_said(first)} {what}, {count} times ({answers.total()} such answers)")


def _said(answer: Any) -> str:
    """An answer in few letters."""
    if isinstance(answer, bool):
        return str(answer)
    return " ".join(str(at.value) if isinstance(at, Term) else f"?{at[0]}={at[1].value}" for at in answer) or "()"
