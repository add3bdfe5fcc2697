"""A failing case made smaller: parts are dropped for as long as it fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from algebra import Group, Minus, Op, Optional, Path, Select, Service, Term, Triple, Union, Values, Var, Within
from query_generator import Case, World

PLAIN: dict[str, Any] = {
    "policy": "",
    "operator": "RSTREAM",
    "form": "SELECT",
    "edges": False,
    "fetch": "always",
    "budget": 1000,
}
"""The simplest settings."""


def shrunk(case: Case, fails: Callable[[Case], bool], tries: int = 3000) -> Case:
    """The smallest case found that still fails."""
    going = True
    while going:
        going = False
        for smaller in smaller_cases(case):
            tries -= 1
            if tries < 0:
                return case
            if fails(smaller):
                case, going = smaller, True
                break
    return case


def smaller_cases(case: Case) -> Iterator[Case]:
    """Simpler settings, a smaller query, a smaller world."""
    for name, value in PLAIN.items():
        if getattr(case, name) != value:
            yield replace(case, **{name: value})
    if len(case.windows) > 1:
        for windows in _without_one(case.windows):
            yield replace(case, windows=windows)
    for query in _smaller(case.query):
        yield replace(case, query=query)
    for world in _worlds(case.world):
        yield replace(case, world=world)


def _worlds(world: World) -> Iterator[World]:
    for name, elements in world.streams.items():
        for fewer in _without_one(elements):
            if fewer:
                yield replace(world, streams=world.streams | {name: fewer})
    for name, versions in world.remotes.items():
        if len(versions) > 1:
            yield from (replace(world, remotes=world.remotes | {name: fewer}) for fewer in _later_gone(versions))
        for fact in sorted(frozenset().union(*(content for _, content in versions)), key=str):
            left = tuple((t, content - {fact}) for t, content in versions)
            yield replace(world, remotes=world.remotes | {name: left})
    for fact in sorted(world.graph, key=str):
        yield replace(world, graph=world.graph - {fact})


def _later_gone(versions: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Without one of the versions that come later."""
    for n in range(1, len(versions)):
        yield versions[:n] + versions[n + 1 :]


def _without_one(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for n in range(len(items)):
        yield items[:n] + items[n + 1 :]


def _smaller(node: Any) -> Iterator[Any]:
    """Trees with one part less."""
    if node is None or isinstance(node, Term | Var | Path | Triple | str | bool | int):
        return
    if isinstance(node, Values):
        yield from (replace(node, rows=rows) for rows in _without_one(node.rows))
    elif isinstance(node, Op):
        yield from node.args
        yield from (Op(node.name, args) for args in _one_smaller(node.args))
    elif is_dataclass(node):
        yield from _inside(node)
        for each in fields(node):
            for part in _smaller(getattr(node, each.name)):
                yield replace(cast(Any, node), **{each.name: part})
    elif isinstance(node, tuple) and len(node) == 2 and isinstance(node[1], Var) and not isinstance(node[0], Var):
        yield from ((expression, node[1]) for expression in _smaller(node[0]))
    elif isinstance(node, tuple):
        yield from _without_one(node)
        yield from _one_smaller(node)


def _one_smaller(items: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
    for n, item in enumerate(items):
        yield from ((*items[:n], part, *items[n + 1 :]) for part in _smaller(item))


def _inside(node: object) -> Iterator[object]:
    """What may stand in the place of a block, and a query without one of its clauses."""
    if isinstance(node, Union):
        yield from node.parts
    elif isinstance(node, Optional | Minus | Within | Service):
        yield node.group
    elif isinstance(node, Group) and len(node.elements) == 1 and isinstance(node.elements[0], Group):
        yield node.elements[0]
    elif isinstance(node, Select):
        clauses: dict[str, Any] = {"distinct": False, "having": None, "limit": None, "items": ()}
        yield from (replace(node, **{name: none}) for name, none in clauses.items() if getattr(node, name) != none)
