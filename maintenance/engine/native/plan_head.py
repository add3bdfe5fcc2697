"""The result that a query makes of its solutions: rows, groups, triples, or a truth value."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyoxigraph import BlankNode, Triple

from freshkeeper.maintenance.engine.construct import VARIABLE_PREFIX, ConstructTemplate
from freshkeeper.maintenance.engine.evaluator import CUSTOM_FUNCTION_CALL
from freshkeeper.maintenance.query.model import Form, Operator, Query
from freshkeeper.maintenance.query.row_order import ORDER_DEPENDENT
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind
from freshkeeper.maintenance.query.syntax.tree import CLAUSES, Element, Select


class EvaluatorKind(StrEnum):
    """auto: native if the query has a native plan, otherwise snapshot; the others insist on one."""

    AUTO = "auto"
    NATIVE = "native"
    SNAPSHOT = "snapshot"


FUNCTIONS = ("COUNT", *ORDER_DEPENDENT)


class NotNativeError(Exception):
    """The reason why a query needs the snapshot evaluator, and the element that causes it, if it is one."""

    def __init__(self, reason: str, element: Element | Token | None = None) -> None:
        super().__init__(reason)
        self.element = element

    def within(self, query: Query) -> str:
        """Return the reason with its place in the text of the query."""
        return query.message_at(self.element, str(self))


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function over a variable, or COUNT(*) if `variable` is None."""

    name: str
    variable: str | None
    distinct: bool
    function: str = "COUNT"


@dataclass(frozen=True)
class Grouping:
    """GROUP BY variables, with aggregates."""

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def counts(self) -> bool:
        """True if all aggregates are COUNT."""
        return not self.ordered

    @property
    def ordered(self) -> tuple[str, ...]:
        """The variables that are aggregated in a defined order, as the order may affect the result."""
        made_of = (
            one.variable for one in self.aggregates if one.function in ORDER_DEPENDENT and one.variable is not None
        )
        return tuple(dict.fromkeys(made_of))


@dataclass(frozen=True)
class PlanHead:
    """The parts of a query around its pattern."""

    form: Form
    star: bool
    output_variables: tuple[str, ...] = ()
    """variables of SELECT, or of the template of CONSTRUCT"""
    computed: tuple[tuple[str, str], ...] = ()
    """names and texts of the expressions in SELECT"""
    distinct: bool = False
    grouping: Grouping | None = None
    template: tuple[Triple, ...] = ()

    @property
    def needed(self) -> tuple[str, ...]:
        """The variables that must be kept of every solution."""
        if self.grouping is None:
            return self.output_variables
        made_of = (one.variable for one in self.grouping.aggregates if one.variable is not None)
        return tuple(dict.fromkeys([*self.grouping.keys, *made_of]))


def read_head(query: Query) -> PlanHead:
    """Return the head of a query; raise NotNativeError if the native evaluator does not support it."""
    if query.form is Form.DESCRIBE:
        raise NotNativeError("it is a DESCRIBE")
    if CUSTOM_FUNCTION_CALL.search(query.sparql):
        raise NotNativeError("it uses the timestamps of elements")
    tree = query.tree
    for token in tree.tail:
        if token.is_word("ORDER", "LIMIT", "OFFSET", "VALUES", "HAVING"):
            raise NotNativeError(f"{token.text.upper()} is not supported", token)
    if query.form is Form.CONSTRUCT:
        return _construct(query, tree)
    if query.form is Form.ASK:
        return PlanHead(query.form, star=False)
    return _select(tree)


def _select(tree: Select) -> PlanHead:
    if tree.distinct is not None and tree.distinct.is_word("REDUCED"):
        raise NotNativeError("it is REDUCED", tree.distinct)
    shown, distinct = tuple(tree.columns), tree.distinct is not None
    if tree.aggregated:
        return PlanHead(
            Form.SELECT, False, output_variables=shown, computed=(), distinct=distinct, grouping=_grouping(tree)
        )
    text = tree.source.tokens.text
    computed = tuple((name, text[made[0].start : made[-1].end]) for name, made in tree.columns.items() if made)
    return PlanHead(Form.SELECT, tree.star, shown, computed, distinct)


def _grouping(tree: Select) -> Grouping:
    keys = _keys(tree.tail)
    aggregates = tuple(_aggregate(name, made) for name, made in tree.columns.items() if made)
    if lost := [name for name, made in tree.columns.items() if not made and name not in keys]:
        named = [token for token in tree.head if token.text[1:] == lost[0]]
        raise NotNativeError(f"?{lost[0]} is not a key of GROUP BY", named[0] if named else None)
    return Grouping(keys, aggregates)


def _keys(tail: Sequence[Token]) -> tuple[str, ...]:
    """Return the variables of GROUP BY; raise NotNativeError if it contains expressions."""
    begin = next((n for n, token in enumerate(tail) if token.is_word("GROUP")), None)
    if begin is None:
        return ()
    named = [token for token in tail[begin + 2 :] if not token.is_word(*CLAUSES)]
    if others := [token for token in named if token.kind is not TokenKind.VAR]:
        raise NotNativeError("it groups by an expression", others[0])
    return tuple(dict.fromkeys(token.text[1:] for token in named))


def _aggregate(name: str, made: Sequence[Token]) -> Aggregate:
    """Return an aggregate of a variable, or COUNT(*)."""
    distinct = len(made) == 5 and made[2].is_word("DISTINCT")
    of = made[3 if distinct else 2] if len(made) == 4 + distinct else None
    if of is not None and made[0].is_word(*FUNCTIONS) and made[1].is_mark("(") and made[-1].is_mark(")"):
        function = made[0].text.upper()
        if of.kind is TokenKind.VAR:
            return Aggregate(name, of.text[1:], distinct, function)
        if of.is_mark("*") and not distinct and function == "COUNT":
            return Aggregate(name, None, distinct)
    raise NotNativeError(f"?{name} is not {', '.join(FUNCTIONS)} of a variable, nor COUNT(*)", made[0])


def _construct(query: Query, tree: Select) -> PlanHead:
    template = ConstructTemplate.of(query)
    if template is None or tree.aggregated:
        raise NotNativeError("its CONSTRUCT has no template, or groups")
    if any(isinstance(term, BlankNode | Triple) for triple in template.triples for term in triple):
        raise NotNativeError("its template has blank nodes or triple terms")
    named = tuple(dict.fromkeys(_variables(template.triples)))
    return PlanHead(query.form, query.operator is not Operator.RSTREAM, named, template=template.triples)


def _variables(triples: Sequence[Triple]) -> Iterator[str]:
    for triple in triples:
        for term in triple:
            if (name := template_variable(term)) is not None:
                yield name


def template_variable(term: object) -> str | None:
    """Return the variable that a term of a template stands for, or None."""
    value = getattr(term, "value", "")
    return value.removeprefix(VARIABLE_PREFIX) if value.startswith(VARIABLE_PREFIX) else None
