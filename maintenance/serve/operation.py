"""HTTP operations, each declared in one place: address, role, parameters, bodies and responses.

Routes and the OpenAPI document are made from these declarations, so that the document cannot differ from the routes.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from freshkeeper.maintenance.base.validation import validated

if TYPE_CHECKING:
    from freshkeeper.maintenance.serve.app_context import AppContext

JSON = "application/json"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"


class Role(StrEnum):
    """The callers that an operation admits."""

    PUBLIC = "anybody"
    READ = "read"
    WRITE = "write"


class Parameters(BaseModel):
    """The parts of a path, the query string and the headers that an operation takes; others are errors.

    A field with an alias is a header of this name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


Handler: TypeAlias = Callable[..., Awaitable[Response]]
"""A function of the context and, where it names them, `request` and `parameters`."""
Model: TypeAlias = type[BaseModel]


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation:
    """A method of one address."""

    method: str
    path: str
    handle: Handler
    role: Role
    status: HTTPStatus
    """the status of a response without an error"""
    gives: Mapping[str, Model | None]
    """response models by media type; None where no model describes the body"""
    takes: Mapping[str, Model | None]
    """request models by media type"""
    problems: Collection[HTTPStatus]
    """error statuses beside those that all operations of its kind may have"""

    @property
    def summary(self) -> str:
        """The docstring of its function."""
        return inspect.getdoc(self.handle) or ""

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.handle.__name__

    @cached_property
    def parameters(self) -> type[Parameters]:
        """The model of its parameters: the annotation of `parameters` in its function."""
        if "parameters" not in self._arguments:
            return Parameters
        annotation = inspect.get_annotations(self.handle)["parameters"]
        model = annotation if isinstance(annotation, type) else get_type_hints(self.handle)["parameters"]
        assert issubclass(model, Parameters), f"{self.name}: parameters has no model"
        return model

    async def answer(self, context: "AppContext", request: Request) -> Response:
        """Check the caller's role and the parameters, and call the function."""
        context.guard.check(request, self.role)
        arguments = {"request": request, "parameters": validated(self.parameters, self._values(request))}
        return await self.handle(context, **{name: arguments[name] for name in self._arguments if name in arguments})

    @cached_property
    def _arguments(self) -> Collection[str]:
        return inspect.signature(self.handle).parameters

    def _values(self, request: Request) -> dict[str, Any]:
        headers = {
            field.alias: request.headers[field.alias]
            for field in self.parameters.model_fields.values()
            if field.alias is not None and field.alias in request.headers
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
    """Declare a function as an operation; its `parameters` say what it takes, its docstring what it does."""
    if isinstance(gives, Mapping):
        responses = gives
    else:
        responses = {} if status is HTTPStatus.NO_CONTENT else {JSON: gives}
    default_role = Role.READ if method == "GET" else Role.WRITE

    def declare(handle: Handler) -> Operation:
        return Operation(
            method=method,
            path=path,
            handle=handle,
            role=role or default_role,
            status=status,
            gives=responses,
            takes=takes or {},
            problems=problems,
        )

    return declare


def routes_of(operations: Sequence[Operation], context: "AppContext") -> list[Route]:
    """Return a route for each address, with all its methods."""
    by_path: dict[str, dict[str, Operation]] = {}
    for one in operations:
        by_path.setdefault(one.path, {})[one.method] = one
    return [Route(path, _endpoint(methods, context), methods=[*methods]) for path, methods in by_path.items()]


def _endpoint(methods: Mapping[str, Operation], context: "AppContext") -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method].answer(context, request)

    return endpoint
