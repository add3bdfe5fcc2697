"""Errors as HTTP tells them: problem+json with what is wrong and what would be right, never a traceback."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from freshkeeper.maintenance.base.errors import FreshkeeperError, UnknownNameError
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.serve.look_up import UnknownKeyError
from freshkeeper.maintenance.serve.registrations import FullError, NameInUseError
from freshkeeper.maintenance.serve.service import BusyError, ClosedError

STATUS: dict[type[Exception], HTTPStatus] = {
    BusyError: HTTPStatus.TOO_MANY_REQUESTS,
    FullError: HTTPStatus.TOO_MANY_REQUESTS,
    ClosedError: HTTPStatus.SERVICE_UNAVAILABLE,
    NameInUseError: HTTPStatus.CONFLICT,
    UnknownNameError: HTTPStatus.NOT_FOUND,
    UnknownKeyError: HTTPStatus.NOT_FOUND,
    FreshkeeperError: HTTPStatus.BAD_REQUEST,
}
"""The first that fits."""
AGAIN = {"Retry-After": "1"}


class ProblemDetails(BaseModel):
    """What is wrong with a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="what is wrong, and what would be right")


class Problem(Exception):  # noqa: N818
    """A request that cannot be answered, and why."""

    def __init__(self, status: HTTPStatus, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers or {}


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """As RFC 9457 has it."""
    told = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(told, status, headers, media_type="application/problem+json")


async def problem_response(request: HTTPConnection, error: Exception) -> Response:
    """What a request that failed is answered."""
    del request
    if isinstance(error, Problem):
        return problem(error.status, str(error), error.headers)
    if isinstance(error, HTTPException):
        return problem(error.status_code, error.detail, dict(error.headers or {}))
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), None)
    if status is None:
        LOGGER.error("a request failed: %s", error, exc_info=error)
        return problem(500, "this should not have happened: the log of the service says more")
    again = status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
    return problem(status, str(error), AGAIN if again else None)


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = dict.fromkeys(
    (Problem, HTTPException, FreshkeeperError, Exception), problem_response
)
