"""Credentials: named in a config, read from the environment, sent to the source, shown to nobody."""

import base64
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from freshkeeper.maintenance.base.addresses import MASK, mask_secrets, secrets_in
from freshkeeper.maintenance.base.errors import ConfigError

SHORTEST = 4
"""Characters of what is hidden because an address has it; less is found by chance."""


@dataclass(frozen=True)
class Credentials:
    """Headers that tell a source who asks; nothing of them is ever printed."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    hidden: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def bearer(cls, variable: str, environment: Mapping[str, str] = os.environ) -> "Credentials":
        token = _read(variable, environment)
        return cls({"Authorization": f"Bearer {token}"}, _forms(token))

    @classmethod
    def basic(cls, user: str, password: str, environment: Mapping[str, str] = os.environ) -> "Credentials":
        name, word = _read(user, environment), _read(password, environment)
        both = basic(name, word)
        return cls({"Authorization": both}, _forms(word) | _forms(both.removeprefix("Basic ")))

    @classmethod
    def from_headers(cls, variables: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> "Credentials":
        """Read headers such as X-API-Key, each from its environment variable."""
        headers = {name: _read(variable, environment) for name, variable in variables.items()}
        parts = [*headers.values(), *(value.split()[-1] for value in headers.values() if value.strip())]
        return cls(headers, frozenset().union(*map(_forms, parts)))

    def joined(self, other: "Credentials") -> "Credentials":
        return Credentials({**self.headers, **other.headers}, self.hidden | other.hidden)

    def hiding(self, addresses: Iterable[str]) -> "Credentials":
        """Hide the secrets of these addresses, too: a source may repeat them."""
        found = (secret for address in addresses for secret in secrets_in(address) if len(secret) >= SHORTEST)
        return Credentials(self.headers, self.hidden.union(*map(_forms, found)))

    def mask(self, text: str) -> str:
        """Return a text without the secrets; a source may echo what it was sent."""
        for secret in sorted(self.hidden, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return mask_secrets(text)


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _read(variable: str, environment: Mapping[str, str]) -> str:
    found = environment.get(variable, "")
    if not found:
        raise ConfigError(f"the environment variable {variable} is not set; the source's credentials are read from it")
    if any(ord(c) < 32 or ord(c) > 126 for c in found):
        raise ConfigError(f"the environment variable {variable} holds characters that no HTTP header can carry")
    return found


def _forms(secret: str) -> frozenset[str]:
    """Return a secret as written, in addresses, in JSON, and with its blanks run together as errors print it."""
    plain = {secret, json.dumps(secret)[1:-1]}
    in_addresses = {quote(secret), quote(secret, safe=""), quote_plus(secret), quote_plus(secret, safe="/")}
    return frozenset(plain | in_addresses | {" ".join(each.split()) for each in plain}) - {""}
