"""Who may ask: on this machine everybody, from elsewhere who brings a word that stands in a file."""

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
SHORTEST = 16
PROTOCOL, BEARER = "freshkeeper", "bearer"
"""What a browser may offer for a WebSocket: the protocol, and bearer.WORD with the word in base64url."""
CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True)
class Guard:
    """The words of those who write and of those who read; without any, everybody who reaches the port does both."""

    write: bytes | None
    read: bytes | None

    @classmethod
    def of(cls, host: str, token: Path | None, read_token: Path | None) -> "Guard":
        """From files; where other machines may ask there must be one."""
        if token is None and host not in LOOPBACK:
            raise ConfigError(
                f"listen: other machines may reach {host}: give token, a file with the word that requests must bring"
            )
        if read_token is not None and token is None:
            raise ConfigError("read_token: without token everybody may write; give both")
        return cls(None if token is None else _word(token), None if read_token is None else _word(read_token))

    def check(self, request: HTTPConnection, role: Role) -> None:
        """Whether a request may do what it wants."""
        if role is Role.ANYBODY:
            return
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if origin is not None and _parts(origin).netloc != host:
            raise Problem(HTTPStatus.FORBIDDEN, f"a page of {origin} asks: only pages of this service itself may")
        if self.write is None:
            if _name_of(host) not in LOOPBACK:
                raise Problem(
                    HTTPStatus.FORBIDDEN,
                    f"{host} is no name of this machine for itself, and without token nobody else may ask",
                )
            return
        word = _brought(request)
        may_write = hmac.compare_digest(word, self.write)
        may_read = may_write or (self.read is not None and hmac.compare_digest(word, self.read))
        if role is Role.WRITE and may_read and not may_write:
            raise Problem(HTTPStatus.FORBIDDEN, "this word may only read")
        if not may_read:
            raise Problem(
                HTTPStatus.UNAUTHORIZED, "bring the word of the service: Authorization: Bearer WORD", CHALLENGE
            )


def _brought(request: HTTPConnection) -> bytes:
    """The word that a request brings; empty where it brings none."""
    kind, _, word = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return word.strip().encode()
    for offered in request.scope.get("subprotocols", ()):  # of a WebSocket: a browser can say nothing else there
        kind, _, word = offered.partition(".")
        if kind == BEARER:
            with suppress(ValueError):
                return urlsafe_b64decode(word + "=" * (-len(word) % 4))
    return b""


def _name_of(host: str) -> str:
    """The host's name without its port."""
    return _parts(f"//{host}").hostname or ""


def _parts(address: str) -> SplitResult:
    """Of an address; one that is none has no parts."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def check_private(path: Path, what: str) -> None:
    """Whether its owner alone can read a file."""
    try:
        with path.open("rb"):
            mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"others can read {what} {path}: chmod 600 {path}")


def _word(path: Path) -> bytes:
    check_private(path, "the token file")
    word = path.read_bytes().strip()
    if len(word) < SHORTEST:
        raise ConfigError(
            f"the word in {path} has {len(word)} bytes: give at least {SHORTEST}, as of openssl rand -hex 32"
        )
    return word
