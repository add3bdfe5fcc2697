"""https://...: each answer is a POST, signed as Standard Webhooks have it (standardwebhooks.com).

`webhook-id` is the same whenever an answer is sent again; `webhook-signature` is the HMAC-SHA256 of id, time and body,
by a secret that only an environment variable holds. What is refused, or does not arrive after so many tries, is a dead
letter: a line in a file, with what was said of it.
"""

import base64
import hashlib
import hmac
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import make_directory, writing
from freshkeeper.maintenance.outputs.sender import Answer
from freshkeeper.maintenance.streams.live.feed import Backoff, LostError

AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which it is tried again."""
PATIENCE = 10.0
LONGEST_WAIT = 60.0


class _NoRedirects(HTTPRedirectHandler):
    """What is signed goes where it was meant to go."""

    def redirect_request(self, *_: object) -> None:
        """Answers go to no other address than the one that was named."""


def signature(secret: bytes, id: str, at: int, body: bytes) -> str:
    """What proves who sent it."""
    mac = hmac.new(secret, f"{id}.{at}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(mac.digest()).decode()


def secret_of(variable: str, environment: Mapping[str, str] = os.environ) -> bytes | None:
    """From an environment variable: whsec_ and base64, or any words."""
    if not variable:
        return None
    found = environment.get(variable, "")
    if not found:
        raise ConfigError(f"secret: the environment variable {variable} is not set")
    if not found.startswith("whsec_"):
        return found.encode()
    try:
        return base64.b64decode(found.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise ConfigError(f"secret: what {variable} holds behind whsec_ is no base64") from None


@dataclass(eq=False)
class Webhook:
    """Posts answers to one address, signed, again and again, and writes dead letters of what it refuses."""

    url: str
    secret: bytes | None
    dead_letters: Path
    tries: int = 8
    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 30))
    clock: Callable[[], float] = time.time
    stopping: threading.Event = field(default_factory=threading.Event)
    dead: int = 0
    """answers that went to the file"""
    _down: bool = False
    """the last one did not arrive, so the next has one try"""

    def __post_init__(self) -> None:
        self._opener = build_opener(_NoRedirects)

    @property
    def name(self) -> str:
        """As it may be shown."""
        return shown(self.url)

    def put(self, answers: Sequence[Answer]) -> None:
        """Each is there, or a dead letter."""
        for one in answers:
            if (failure := self._sent(one)) is not None:
                self._bury(one, failure)

    def close(self) -> None:
        """Every request has a connection of its own, so none is open."""

    def _sent(self, answer: Answer) -> str | None:
        """Why it did not arrive, after all tries."""
        failure, tries = "", 1 if self._down else self.tries
        for n in range(tries):
            failure, again, wait = self._tried(answer)
            if not failure:
                self._down = False
                self.backoff.reset()
                return None
            if not again:
                return failure
            if n + 1 < tries and self.stopping.wait(max(wait, self.backoff.next())):
                raise LostError("it was stopped")
        self._down = True
        return f"{failure}, {tries} {'try' if tries == 1 else 'tries'}"

    def _tried(self, answer: Answer) -> tuple[str, bool, float]:
        """What was wrong, whether it may pass, and how long one is asked to wait."""
        at, body = int(self.clock()), answer.line.rstrip(b"\n")
        headers = {
            "Content-Type": "application/json", "User-Agent": "freshkeeper",
            "webhook-id": answer.id, "webhook-timestamp": str(at),
        }  # fmt: skip
        if self.secret is not None:
            headers["webhook-signature"] = signature(self.secret, answer.id, at, body)
        try:
            with self._opener.open(Request(self.url, body, headers, method="POST"), timeout=PATIENCE) as response:
                response.read(1 << 16)
        except HTTPError as error:
            with error:
                wait = error.headers.get("Retry-After", "")
            seconds = min(LONGEST_WAIT, float(wait)) if wait.isascii() and wait.isdigit() else 0.0
            return f"HTTP {error.code} {error.reason}", error.code in AGAIN, seconds
        except (OSError, HTTPException, ValueError) as error:
            return shown(str(getattr(error, "reason", error))), True, 0.0
        return "", False, 0.0

    def _bury(self, answer: Answer, failure: str) -> None:
        with writing(self.dead_letters):
            make_directory(self.dead_letters.parent)
            told = {"at": datetime.fromtimestamp(self.clock(), UTC).isoformat(), "id": answer.id, "why": failure}
            line = json.dumps(told | {"answer": json.loads(answer.line)}, ensure_ascii=False)
            with self.dead_letters.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        self.dead += 1
