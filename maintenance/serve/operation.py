"""What can be asked over HTTP, each in one place: its address, who may, what it takes and gives.

The routes and the OpenAPI document are made of it, so an operation cannot be one thing and be said to be another.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from freshkeeper.maintenance.base.validation import validated

if TYPE_CHECKING:
    from freshkeeper.maintenance.serve.door import Door

JSON = "application/json"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"


class Role(StrEnum):
    """Who may ask for something."""

    ANYBODY = "anybody"
    READ = "read"
    WRITE = "write"


class Parameters(BaseModel):
    """What a request says beside its body, anything else being a mistake: parts of its path and query, and headers.

    A field with an alias is a header of this name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


Handler: TypeAlias = Callable[["Door", Request, Any], Awaitable[Response]]
Model: TypeAlias = type[BaseModel]


@dataclass(frozen=True, eq=False)
class Operation:
    """One method of one address."""

    method: str
    path: str
    handle: Handler
    role: Role
    parameters: type[Parameters]
    """what the handler takes of a request beside its body"""
    status: HTTPStatus
    """when all is well"""
    gives: Mapping[str, Model | None]
    """kinds of answers; None where no model says more"""
    takes: Mapping[str, Model | None]
    """kinds of bodies"""
    problems: Collection[HTTPStatus] = field(default=())
    """what else it may answer, beside what every operation of its kind may"""

    @property
    def summary(self) -> str:
        """What it does, in the words of its function's docstring."""
        return inspect.getdoc(self.handle) or ""

    @property
    def name(self) -> str:
        """The name of its function, as the OpenAPI document has it."""
        return self.handle.__name__

    async def answer(self, door: "Door", request: Request) -> Response:
        """Whether it may be asked, with what, and what it answers."""
        door.guard.check(request, self.role)
        return await self.handle(door, request, validated(self.parameters, self._said(request)))

    def _said(self, request: Request) -> dict[str, Any]:
        headers = {
            one.alias: request.headers[one.alias]
            for one in self.parameters.model_fields.values()
            if one.alias is not None and one.alias in request.headers
        }
        return {**request.query_params, **request.path_params, **headers}


def operation(
    method: str,
    path: str,
    role: Role | None = None,
    status: HTTPStatus = HTTPStatus.OK,
    gives: Mapping[str, Model | None] | Model | None = None,
    takes: Mapping[str, Model | None] | None = None,
    problems: Collection[HTTPStatus] = (),
) -> Callable[[Handler], Operation]:
    """What a function answers; its third parameter says what it takes, its docstring what it does."""
    told = gives if isinstance(gives, Mapping) else {} if status is HTTPStatus.NO_CONTENT else {JSON: gives}

    def made(handle: Handler) -> Operation:
        parameters = _parameters_of(handle)
        by = role or (Role.READ if method == "GET" else Role.WRITE)
        return Operation(method, path, handle, by, parameters, status, told, takes or {}, problems)

    return made


def _parameters_of(handle: Handler) -> type[Parameters]:
    """The type of the third parameter; what cannot be looked up yet is of no use here."""
    *_, last = inspect.signature(handle).parameters
    written = inspect.get_annotations(handle)[last]
    found = written if isinstance(written, type) else get_type_hints(handle)[last]
    assert issubclass(found, Parameters), f"{handle.__name__}: its third parameter is no model of parameters"
    return found


def routes_of(operations: Sequence[Operation], door: "Door") -> list[Route]:
    """A route for each address, whatever its methods."""
    by_path: dict[str, dict[str, Operation]] = {}
    for one in operations:
        by_path.setdefault(one.path, {})[one.method] = one
    return [Route(path, _endpoint(methods, door), methods=[*methods]) for path, methods in by_path.items()]


def _endpoint(methods: Mapping[str, Operation], door: "Door") -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method].answer(door, request)

    return endpoint
