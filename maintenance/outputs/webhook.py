"""https://...: each answer is a POST, signed in the way of Standard Webhooks (standardwebhooks.com).

`webhook-id` is the same whenever an answer is sent again; `webhook-signature` is the HMAC-SHA256 of id, time and body,
with a secret from an environment variable. An answer that is refused, or not delivered after the permitted attempts, is
a dead letter: a line in a file, with the reason.
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
from pathlib import Path

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, EndpointError
from freshkeeper.maintenance.base.files import make_directory, writing
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool
from freshkeeper.maintenance.fetching.http.response_status import RETRYABLE, retry_after
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.outputs.sender import AnswerLine
from freshkeeper.maintenance.streams.live.feed import Backoff, LostError

TIMEOUT_S = 10.0
MAX_WAIT_S = 60.0
"""A receiver that wants to be left alone for longer is tried again after this."""


def signature(secret: bytes, id: str, at: int, body: bytes) -> str:
    mac = hmac.new(secret, f"{id}.{at}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(mac.digest()).decode()


def secret_of(variable: str, environment: Mapping[str, str] = os.environ) -> bytes | None:
    """Return the secret in an environment variable: whsec_ and base64, or any text."""
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
        raise ConfigError(f"secret: the value of {variable} behind whsec_ is not base64") from None


@dataclass(eq=False)
class Webhook:
    """A receiver that posts signed answers to one address, and writes those that it refuses to a file."""

    url: str
    secret: bytes | None
    dead_letters: Path
    tries: int = 8
    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 30))
    clock: Callable[[], float] = time.time
    stopping: threading.Event = field(default_factory=threading.Event)
    dead: int = 0
    """number of answers in the file"""
    _pool: ConnectionPool = field(default_factory=ConnectionPool)
    _down: bool = False
    """whether the last answer was not delivered, so that the next gets one attempt"""

    @property
    def name(self) -> str:
        return mask_secrets(self.url)

    def put(self, answers: Sequence[AnswerLine]) -> None:
        for answer in answers:
            failure = self._deliver(answer)
            if failure is not None:
                self._write_dead_letter(answer, failure)

    def close(self) -> None:
        self._pool.close()

    def _deliver(self, answer: AnswerLine) -> str | None:
        """Send an answer; return the reason if it was not delivered after all attempts."""
        failure = ""
        tries = self.tries
        if self._down:
            tries = 1
        for n in range(tries):
            failure, is_retryable, wait = self._post(answer)
            if not failure:
                self._down = False
                self.backoff.reset()
                return None
            if not is_retryable:
                return failure
            if n + 1 < tries and self.stopping.wait(max(wait, self.backoff.next())):
                raise LostError("it was stopped")
        # the receiver seems to be down: the next answer gets one attempt, so that those behind it are not held up
        self._down = True
        if tries == 1:
            return f"{failure}, 1 try"
        return f"{failure}, {tries} tries"

    def _post(self, answer: AnswerLine) -> tuple[str, bool, float]:
        """Post an answer; return the problem, whether another attempt may succeed, and the seconds to wait."""
        at = int(self.clock())
        body = answer.line.rstrip(b"\n")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "freshkeeper",
            "webhook-id": answer.id,
            "webhook-timestamp": str(at),
        }
        if self.secret is not None:
            headers["webhook-signature"] = signature(self.secret, answer.id, at, body)
        deadline = Deadline(self._pool.clock() + TIMEOUT_S)
        try:
            response = self._pool.exchange(Call("POST", self.url, headers, body), deadline)
        except (EndpointError, ValueError) as error:
            return mask_secrets(str(error)), True, 0.0
        if 200 <= response.status < 300:
            return "", False, 0.0
        wait = retry_after(response.headers, self.clock()) or 0.0
        is_retryable = response.status in RETRYABLE
        return f"HTTP {response.status} {response.reason}", is_retryable, min(wait, MAX_WAIT_S)

    def _write_dead_letter(self, answer: AnswerLine, failure: str) -> None:
        letter = {
            "at": datetime.fromtimestamp(self.clock(), UTC).isoformat(),
            "id": answer.id,
            "why": failure,
            "answer": json.loads(answer.line),
        }
        with writing(self.dead_letters):
            make_directory(self.dead_letters.parent)
            with self.dead_letters.open("a", encoding="utf-8") as file:
                file.write(json.dumps(letter, ensure_ascii=False) + "\n")
        self.dead += 1
