"""Credentials: named in a config, read from the environment, sent to the source, shown to nobody."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from freshkeeper.policies.errors import ConfigError

MASK = "***"


@dataclass(frozen=True)
class Credentials:
    """A bearer token, or a user with a password; nothing of them is ever printed."""

    authorization: str = field(default="", repr=False)
    """the header's value"""
    hidden: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def bearer(cls, variable: str, environment: Mapping[str, str] = os.environ) -> "Credentials":
        """The token in an environment variable."""
        token = _read(variable, environment)
        return cls(f"Bearer {token}", _forms(token))

    @classmethod
    def basic(cls, user: str, password: str, environment: Mapping[str, str] = os.environ) -> "Credentials":
        """User and password in two environment variables."""
        name, word = _read(user, environment), _read(password, environment)
        both = base64.b64encode(f"{name}:{word}".encode()).decode()
        return cls(f"Basic {both}", _forms(word) | _forms(both))

    def mask(self, text: str) -> str:
        """A text without them, whoever wrote it: a source may echo what it was sent."""
        for secret in sorted(self.hidden, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text


def _read(variable: str, environment: Mapping[str, str]) -> str:
    found = environment.get(variable, "")
    if not found:
        raise ConfigError(f"the environment variable {variable} is not set; the source's credentials are read from it")
    if any(ord(c) < 32 or ord(c) > 126 for c in found):
        raise ConfigError(f"the environment variable {variable} holds characters that no HTTP header can carry")
    return found


def _forms(secret: str) -> frozenset[str]:
    """As it is, as it stands in addresses and in JSON, and with its blanks run together, as errors are shown."""
    plain = {secret, json.dumps(secret)[1:-1]}
    in_addresses = {quote(secret), quote(secret, safe=""), quote_plus(secret), quote_plus(secret, safe="/")}
    return frozenset(plain | in_addresses | {" ".join(each.split()) for each in plain}) - {""}
