"""Mask the secrets of addresses before they are printed.

Secrets stand before the host (`http://user:password@host`) and in queries (`?apikey=...`). The first are taken out,
the second get `***` in their place, wherever a text has an address: errors, logs, run.json and what is made of it.
"""

import re
from urllib.parse import unquote, unquote_plus

MASK = "***"
_ADDRESS = re.compile(r"(?<=://)[^\s\"<>]+")
_USER = re.compile(r"^[^/?#]*@")
_PARAMETER = re.compile(r"(?<=[?&;#])([^=?&;#]+)=((?:[^?&;#']|'(?=[\w%-]))+)")
_SECRET = re.compile(
    r"key$|token|secret|passw|pwd|signature|credential"
    r"|^(auth|authorization|sig|jwt|sas|pass|pw|app_?id|sid|session_?(id)?|code)$",
    re.IGNORECASE,
)
"""Names of parameters whose values are secrets."""


def mask_secrets(text: str) -> str:
    return _ADDRESS.sub(lambda found: _PARAMETER.sub(_masked, _without_users(found[0])), text)


def mask_secrets_in(value: object) -> object:
    """Return a value whose texts, in lists and tables too, show no secrets."""
    if isinstance(value, dict):
        return {mask_secrets_in(key): mask_secrets_in(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [mask_secrets_in(each) for each in value]
    if isinstance(value, str):
        return mask_secrets(value)
    return value


def secrets_in(address: str) -> set[str]:
    found = {value for name, value in _PARAMETER.findall(address) if _is_secret(name)}
    return found | {unquote_plus(value) for value in found}


def _without_users(place: str) -> str:
    """Remove user and password from one address, or from several in a row, as in IRI=address."""
    return "://".join(_USER.sub("", each) for each in place.split("://"))


def _masked(parameter: re.Match[str]) -> str:
    name, value = parameter.groups()
    return f"{name}={MASK if _is_secret(name) else value}"


def _is_secret(name: str) -> bool:
    return _SECRET.search(unquote(name)) is not None
