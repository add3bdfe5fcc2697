"""Meaning of HTTP statuses: an answer, a mistake of the client, or a source in trouble."""

from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import HttpResponse
from freshkeeper.maintenance.fetching.rate_limiter import LONGEST_WAIT

RETRYABLE = (408, 425, 429, 500, 502, 503, 504)
"""Another try may go better."""
SHUT = (401, 403, 407)
"""The source wants no request at all; every other 4xx is about what was asked for."""


def check(answer: HttpResponse, clock: Callable[[], float]) -> None:
    """Raise FetchError unless the status is a success."""
    status = answer.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise FetchError(
            f"refused: the source is at {answer.headers.get('location', 'another address')} now: give that address"
        )
    trouble = status in RETRYABLE
    wait = retry_after(answer.headers, clock()) if trouble or status == 403 else None  # some say 403 for too many
    said = f"{_kind(status, wait)}: {status} {answer.reason}{_words(answer)}"
    raise FetchError(said, trouble, wait, status < 500 and not trouble and status not in SHUT)


def _kind(status: int, wait: float | None) -> str:
    if status == 408:
        return "timeout"
    if status in (425, 429) or wait is not None:
        return "limited"
    return "server" if status >= 500 else "refused"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds for which the source wants no request, from a number or a date; None without Retry-After."""
    written = headers.get("retry-after", "").strip()
    if written.isascii() and written.isdigit():
        return min(float(written[:12]), LONGEST_WAIT)
    at, sent = http_date(written), http_date(headers.get("date"))
    return None if at is None else min(max(0.0, at - (now if sent is None else sent)), LONGEST_WAIT)


def http_date(written: str | None) -> float | None:
    """Return the seconds since 1970 of a date as HTTP writes it."""
    if not written:
        return None
    try:
        at = parsedate_to_datetime(written)
    except (ValueError, OverflowError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _words(answer: HttpResponse) -> str:
    """Return the text of an error for people, unless it is a page."""
    if media_type(answer) not in ("text/plain", "application/json", "application/problem+json"):
        return ""
    said = " ".join(answer.body.decode("utf-8", "replace").split())
    return f": {said}" if said else ""


def media_type(answer: HttpResponse) -> str:
    """Return the content type without its parameters."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()
