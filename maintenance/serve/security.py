"""Access rights: clients of this machine need none, others need a token that stands in a file."""

import hmac
import stat
from base64 import urlsafe_b64decode
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from starlette.requests import HTTPConnection

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.serve.operation import Role
from freshkeeper.maintenance.serve.problems import Problem

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MIN_TOKEN_BYTES = 16
PROTOCOL, BEARER = "freshkeeper", "bearer"
"""The subprotocols that a browser offers for a WebSocket: this protocol, and bearer.TOKEN in base64url."""
CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True)
class Guard:
    """The tokens for writing and reading; without any, everybody who reaches the port may do both."""

    write: bytes | None
    read: bytes | None

    @classmethod
    def of(cls, host: str, token: Path | None, read_token: Path | None) -> "Guard":
        """Read the tokens from files; ConfigError if other machines can reach the port and there is none."""
        if token is None and host not in LOOPBACK:
            raise ConfigError(
                f"listen: other machines may reach {host}: give token, a file with the token that requests must bring"
            )
        if read_token is not None and token is None:
            raise ConfigError("read_token: without token everybody may write; give both")
        return cls(
            None if token is None else _read_token(token), None if read_token is None else _read_token(read_token)
        )

    def check(self, request: HTTPConnection, role: Role) -> None:
        """Raise Problem if a request lacks a role."""
        if role is Role.PUBLIC:
            return
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if origin is not None and _parts(origin).netloc != host:
            raise Problem(HTTPStatus.FORBIDDEN, f"a page of {origin} asks: only pages of this service itself may")
        if role is Role.WRITE and request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Problem(HTTPStatus.FORBIDDEN, "a page of another site asks: only pages of this service itself may")
        if self.write is None:
            if _name_of(host) not in LOOPBACK:
                raise Problem(
                    HTTPStatus.FORBIDDEN,
                    f"{host} is no name of this machine for itself, and without token nobody else may ask",
                )
            return
        token = _token_of(request)
        may_write = hmac.compare_digest(token, self.write)
        may_read = may_write or (self.read is not None and hmac.compare_digest(token, self.read))
        if role is Role.WRITE and may_read and not may_write:
            raise Problem(HTTPStatus.FORBIDDEN, "this token may only read")
        if not may_read:
            raise Problem(
                HTTPStatus.UNAUTHORIZED, "bring the token of the service: Authorization: Bearer TOKEN", CHALLENGE
            )


def _token_of(request: HTTPConnection) -> bytes:
    """Return the token of a request; empty if it has none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip().encode()
    for offered in request.scope.get("subprotocols", ()):  # a browser cannot set headers of a WebSocket
        kind, _, token = offered.partition(".")
        if kind == BEARER:
            with suppress(ValueError):
                return urlsafe_b64decode(token + "=" * (-len(token) % 4))
    return b""


def _name_of(host: str) -> str:
    """Return the name of a host without its port."""
    return _parts(f"//{host}").hostname or ""


def _parts(address: str) -> SplitResult:
    """Split an address; one that is invalid has no parts."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def check_private(path: Path, name: str) -> None:
    """Raise ConfigError unless a file can be read by its owner alone."""
    try:
        with path.open("rb"):
            mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{name} {path} cannot be read: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"others can read {name} {path}: chmod 600 {path}")


def _read_token(path: Path) -> bytes:
    check_private(path, "the token file")
    token = path.read_bytes().strip()
    if len(token) < MIN_TOKEN_BYTES:
        raise ConfigError(
            f"the token in {path} has {len(token)} bytes: give at least {MIN_TOKEN_BYTES}, as of openssl rand -hex 32"
        )
    return token
