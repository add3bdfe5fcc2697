"""Validity of a response from its headers, in event time.

Dates are compared with the answer's own Date, so that a clock that is wrong on either side does no harm, and counted
from the evaluation that asked: `max-age=60` means that the copy holds for a minute from there.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.http.response_status import http_date

_MAX_AGE = re.compile(r"max-age\s*=\s*\"?(\d{1,10})", re.ASCII)


class Validity(NamedTuple):
    """Times in ms at which a value last changed and until which it holds, or UNKNOWN."""

    modified: int = UNKNOWN
    expires: int = UNKNOWN


def of_headers(headers: Mapping[str, str], now: int, wall: float) -> Validity:
    """Read Last-Modified, Cache-Control with Age, and Expires; `wall` replaces a missing Date."""
    date = http_date(headers.get("date"))
    date = wall if date is None else date
    changed = http_date(headers.get("last-modified"))
    modified = UNKNOWN if changed is None or changed > date else now - round((date - changed) * 1000)
    lasts = _lasts(headers, date)
    return Validity(modified, UNKNOWN if lasts is None or lasts <= 0 else now + round(lasts * 1000))


def _lasts(headers: Mapping[str, str], date: float) -> float | None:
    """Return for how many seconds the response holds; Cache-Control takes precedence over Expires."""
    control = headers.get("cache-control", "").lower()
    if "no-store" in control or "no-cache" in control:
        return None
    written = headers.get("age", "").strip()
    age = int(written[:10]) if written.isascii() and written.isdigit() else 0
    if found := _MAX_AGE.search(control):
        return int(found[1]) - age
    expires = http_date(headers.get("expires"))
    return None if expires is None else expires - date - age
