"""What is known to be wrong, by name: shapes that the property leaves out until they are mended.

A name leaves with its defect: without it and its function, the generator's queries of this shape count again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from algebra import Bind, Exists, Filter, Group, Minus, Optional, Path, Select, Service, Term, Triple, Var, walk
from query_generator import in_scope

Names = frozenset[str]


def alternative_path(query: Select) -> bool:
    """`p|q` drops duplicates in the library."""
    return any(isinstance(node, Path) and node.mark == "|" for node in walk(query))


def computed_name(query: Select) -> bool:
    """What looks at a name that a sub-query with a SERVICE computes hides the keys that the SERVICE is asked for."""
    for group in (node for node in walk(query) if isinstance(node, Group)):
        for element in group.elements:
            inside = list(walk(element))
            made = {item[1] for node in inside if isinstance(node, Select) for item in node.items if not _is_var(item)}
            looking = (
                e for e in group.elements if isinstance(e, Filter | Bind | Minus | Optional) and e is not element
            )
            if any(isinstance(node, Service) for node in inside) and any(made & _vars(each) for each in looking):
                return True
    return False


def _is_var(item: Any) -> bool:
    return isinstance(item, Var)


def _vars(node: Any) -> set[Var]:
    return {each for each in walk(node) if isinstance(each, Var)}


def nested_optional(query: Select) -> bool:
    """In the library an OPTIONAL within an OPTIONAL sees what is bound before the outer one alone."""
    return any(_rebinds(node) for node in walk(query) if isinstance(node, Group))


def _rebinds(group: Group) -> bool:
    for n, outer in enumerate(group.elements):
        if isinstance(outer, Optional):
            before = in_scope(Group(group.elements[:n]))
            inner = [node for node in walk(outer.group) if isinstance(node, Optional)]
            surely = in_scope(Group(tuple(e for e in outer.group.elements if not isinstance(e, Optional))))
            if any(in_scope(node) & before - surely for node in inner):
                return True
    return False


def sibling(query: Select) -> bool:
    """In the library an expression or a MINUS may see a variable of a block beside its own."""
    bound = frozenset[str]().union(*(in_scope(n) for n in walk(query) if isinstance(n, Triple | Bind) or _rows(n)))
    return any(strange & bound for strange in _strange(query.where, frozenset()))


def _rows(node: Any) -> bool:
    return type(node).__name__ == "Values"


def _strange(node: Any, around: Names) -> Iterator[Names]:
    """For each expression and MINUS, what its group does not bind of it; EXISTS is given what is around it."""
    if isinstance(node, Group):
        yield from _in_group(node, around)
    elif isinstance(node, Select):
        yield from _strange(node.where, around)
    elif is_dataclass(node) or (isinstance(node, tuple) and not isinstance(node, Term | Var)):
        for part in [getattr(node, f.name) for f in fields(node)] if is_dataclass(node) else node:
            yield from _strange(part, around)


def _in_group(group: Group, around: Names, left: Names = frozenset()) -> Iterator[Names]:
    """`left` is what FILTERs of an OPTIONAL see too."""
    everything = in_scope(group) | left | around
    for n, element in enumerate(group.elements):
        before = in_scope(Group(group.elements[:n])) | around
        if isinstance(element, Filter | Bind):
            seen = everything if isinstance(element, Filter) else before
            yield _mentioned(element.expression) - seen
            for node in walk(element.expression):
                if isinstance(node, Exists):
                    yield in_scope(node.group) - seen
                    yield from _in_group(node.group, seen)
        elif isinstance(element, Optional):
            yield from _in_group(element.group, around, before)
        else:
            if isinstance(element, Minus):
                yield in_scope(element.group) - before
            yield from _strange(element, around)


def _mentioned(expression: Any) -> Names:
    """The variables of an expression; those of the patterns in it are their own."""
    if isinstance(expression, Exists):
        return frozenset()
    if isinstance(expression, Var):
        return frozenset((expression.name,))
    args: Sequence[Any] = getattr(expression, "args", ())
    return frozenset[str]().union(*map(_mentioned, args))


KNOWN: dict[str, Callable[[Select], bool]] = {
    "alternative path": alternative_path,
    "computed name": computed_name,
    "nested optional": nested_optional,
    "sibling": sibling,
}


def known(query: Select) -> str | None:
    """The name of a known error that a query may run into."""
    return next((name for name, applies in KNOWN.items() if applies(query)), None)
