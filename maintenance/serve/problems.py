"""Errors as problem+json (RFC 9457): what is wrong and what would be right, never a traceback."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from freshkeeper.maintenance.base.errors import FreshkeeperError, StorageError, UnknownNameError
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
    StorageError: HTTPStatus.SERVICE_UNAVAILABLE,
    FreshkeeperError: HTTPStatus.BAD_REQUEST,
}
"""The first kind that an error is an instance of counts."""
RETRIED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE)
RETRY_SOON = {"Retry-After": "1"}


class ProblemDetails(BaseModel):
    """A problem of a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="what is wrong, and what would be right")


class Problem(Exception):  # noqa: N818
    """A request that fails with a status and a reason."""

    def __init__(self, status: HTTPStatus, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers or {}


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error response."""
    details = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(details, status, headers, media_type="application/problem+json")


async def problem_response(_: HTTPConnection, error: Exception) -> Response:
    """Return the response to a request that raised an error."""
    if isinstance(error, Problem):
        return problem(error.status, str(error), error.headers)
    if isinstance(error, HTTPException):
        return problem(error.status_code, error.detail, dict(error.headers or {}))
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), None)
    if status is None:
        LOGGER.error("a request failed: %s", error, exc_info=error)
        return problem(500, "this should not have happened: the log of the service says more")
    if isinstance(error, StorageError) and error.is_full:
        status = HTTPStatus.INSUFFICIENT_STORAGE
    return problem(status, str(error), RETRY_SOON if status in RETRIED else None)


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = dict.fromkeys(
    (Problem, HTTPException, FreshkeeperError, Exception), problem_response
)
