"""A tree of the algebra as RSP-QL, or as plain SPARQL in which windows and remotes are graphs."""

from collections.abc import Iterator

from algebra import (
    Aggregate,
    Bind,
    Exists,
    Filter,
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
)

E = "http://e/"
PREFIX = f"PREFIX : <{E}>"


def group_text(group: Group) -> str:
    """`{ ... }`."""
    return "{ " + " ".join(_elements(group)) + " }"


def _elements(group: Group) -> Iterator[str]:
    for element in group.elements:
        text = element_text(element)
        yield f"{text} ." if isinstance(element, Triple) else text


def element_text(element: object) -> str:
    """One element of a group."""
    if isinstance(element, Triple):
        return " ".join(term_text(each) for each in (element.subject, element.predicate, element.object))
    if isinstance(element, Group):
        return group_text(element)
    if isinstance(element, Union):
        return " UNION ".join(map(group_text, element.parts))
    if isinstance(element, Optional | Minus):
        return f"{type(element).__name__.upper()} {group_text(element.group)}"
    if isinstance(element, Filter):
        return f"FILTER({expression_text(element.expression)})"
    if isinstance(element, Bind):
        return f"BIND({expression_text(element.expression)} AS {term_text(element.var)})"
    if isinstance(element, Values):
        rows = " ".join(
            "(" + " ".join("UNDEF" if t is None else term_text(t) for t in row) + ")" for row in element.rows
        )
        return f"VALUES ({' '.join(map(term_text, element.vars))}) {{ {rows} }}"
    if isinstance(element, Within):
        return f"{element.word} {term_text(element.name)} {group_text(element.group)}"
    if isinstance(element, Service):
        silent = "SILENT " if element.silent else ""
        return f"SERVICE {silent}{term_text(element.name)} {group_text(element.group)}"
    assert isinstance(element, Select)
    return f"{{ {select_text(element)} }}"


def select_text(query: Select, dataset: str = "") -> str:
    """SELECT as query or sub-query."""
    distinct = "DISTINCT " if query.distinct else ""
    return f"SELECT {distinct}{' '.join(_items(query)) or '*'} {dataset}{group_text(query.where)}{tail_text(query)}"


def _items(query: Select) -> Iterator[str]:
    for item in query.items:
        yield term_text(item) if isinstance(item, Var) else f"({expression_text(item[0])} AS {term_text(item[1])})"


def tail_text(query: Select) -> str:
    """What comes behind the pattern."""
    by = f" GROUP BY {' '.join(map(term_text, query.by))}" if query.by else ""
    having = f" HAVING({expression_text(query.having)})" if query.having is not None else ""
    order = f" ORDER BY {' '.join(map(term_text, query.order))}" if query.order else ""
    return by + having + order + (f" LIMIT {query.limit}" if query.limit is not None else "")


def term_text(term: Term | Var | Path) -> str:
    """A constant, a variable or a path."""
    if isinstance(term, Path):
        return f"({term_text(term.left)}{term.mark}{term_text(term.right)})"
    if isinstance(term, Var):
        return term.name if term.name.startswith("_:") else f"?{term.name}"
    if term.kind == "iri":
        return f":{term.value}"
    if term.kind == "text":
        return f'"{term.value}"'
    return str(term.value).lower()


def expression_text(expression: object) -> str:
    """An expression, with all its parentheses."""
    if isinstance(expression, Term | Var):
        return term_text(expression)
    if isinstance(expression, Exists):
        return f"{'NOT ' if expression.negated else ''}EXISTS {group_text(expression.group)}"
    if isinstance(expression, Aggregate):
        of = "*" if expression.of is None else expression_text(expression.of)
        return f"{expression.name}({'DISTINCT ' if expression.distinct else ''}{of})"
    assert isinstance(expression, Op)
    args = [expression_text(arg) for arg in expression.args]
    if expression.name[0].isalpha():
        return f"{expression.name}({', '.join(args)})"
    return f"(!({args[0]}))" if expression.name == "!" else f"({args[0]} {expression.name} {args[1]})"
