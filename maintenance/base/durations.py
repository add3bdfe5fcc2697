"""Durations and instants, exact in milliseconds: `PT0.5S`, `P1D`, `10m`, `1h30m`, `500ms`, `250`, `10 MINUTES`."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from freshkeeper.maintenance.base.errors import ConfigError

LONGEST_MS = 10**15
"""About 31,000 years; what is longer is a slip of the pen, or an attack on integer parsing."""

UNITS = {
    **dict.fromkeys(("ns",), Fraction(1, 1_000_000)),
    **dict.fromkeys(("us", "µs"), Fraction(1, 1000)),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), Fraction(1)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), Fraction(1000)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), Fraction(60_000)),
    **dict.fromkeys(("h", "hour", "hours"), Fraction(3_600_000)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86_400_000)),
    **dict.fromkeys(("w", "week", "weeks"), Fraction(604_800_000)),
}
HOW = "write PT10S, P1D, 10s, 500ms, 1h30m, or a number of milliseconds"

_AMOUNT = r"(\d{1,18}(?:\.\d{1,9})?)"
_ISO = re.compile(
    rf"P(?:{_AMOUNT}W)?(?:{_AMOUNT}D)?(?:T(?=\d)(?:{_AMOUNT}H)?(?:{_AMOUNT}M)?(?:{_AMOUNT}S)?)?",
    re.IGNORECASE | re.ASCII,
)
_ISO_UNITS = ("w", "d", "h", "m", "s")
_PART = re.compile(rf"{_AMOUNT}([a-zµ]+)", re.IGNORECASE | re.ASCII)
_CALENDAR = re.compile(r"P\d+(\.\d+)?[YM].*|\d+(\.\d+)?\s*(months?|years?|y)", re.IGNORECASE | re.ASCII)
_MIDNIGHT = re.compile(r"T24:00(:00([.,]0+)?)?(?=Z|[-+]|$)")
_LEAP_SECOND = re.compile(r"(T\d\d:\d\d):60")


def to_ms(written: str) -> int:
    """Read a positive duration in milliseconds; raise ValueError with the reason if it is none."""
    ms = to_delay(written)
    if not ms:
        raise ValueError(f"a duration is positive, and {written} is not")
    return ms


def as_ms(written: object) -> object:
    """Read a duration of a config: text becomes milliseconds, a number stays."""
    if isinstance(written, str):
        return to_ms(written)
    return written


def to_delay(written: str) -> int:
    """Read a duration in milliseconds that may be zero."""
    if written.startswith("-"):
        raise ValueError(f"a duration is positive, and {written} is not")
    total = _exact(written)
    if total.denominator != 1:
        raise ValueError(f"time is a whole number of milliseconds, and {written} is not")
    if total > LONGEST_MS:
        raise ValueError(f"{written} is too long: at most {LONGEST_MS:,} ms")
    return int(total)


def duration(name: str, written: int | str, read: Callable[[str], int] = to_ms) -> int:
    """Read the duration of a parameter (a number is milliseconds); raise ConfigError with its name."""
    try:
        if isinstance(written, str):
            return read(written)
        return written
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def _exact(written: str) -> Fraction:
    if re.fullmatch(r"\d{1,18}", written, re.ASCII):
        return Fraction(written)
    if _CALENDAR.fullmatch(written):
        raise ValueError(f"months and years have no fixed length, as in {written}: count days, as in P30D")
    iso = _ISO.fullmatch(written)
    if iso and any(iso.groups()):
        return sum((Fraction(n) * UNITS[u] for n, u in zip(iso.groups(), _ISO_UNITS, strict=True) if n), Fraction(0))
    parts = _PART.findall(written)
    if not parts or "".join(n + u for n, u in parts) != written:
        raise ValueError(f"{written} is no duration: {HOW}")
    unknown = [unit for _, unit in parts if unit.lower() not in UNITS]
    if unknown:
        raise ValueError(f"{unknown[0]} in {written} is no unit of time: there are ms, s, m, h, d, w")
    return sum((Fraction(n) * UNITS[u.lower()] for n, u in parts), Fraction(0))


def to_instant(written: str) -> int:
    """Read an instant: milliseconds since the epoch, or a date and time (UTC unless it says otherwise).

    Digits behind the milliseconds are cut off. 24:00:00 is midnight of the next day, as in XML Schema, and a leap
    second (:60) the first second of the next minute, as in POSIX time.
    """
    if re.fullmatch(r"\d{1,15}", written, re.ASCII):
        return int(written)
    later = timedelta(0)
    text = written
    if _MIDNIGHT.search(text):
        text = _MIDNIGHT.sub("T00:00:00", text)
        later = timedelta(days=1)
    elif _LEAP_SECOND.search(text):
        text = _LEAP_SECOND.sub(r"\g<1>:59", text)
        later = timedelta(seconds=1)
    try:
        moment = datetime.fromisoformat(text) + later
    except (ValueError, OverflowError):
        raise ValueError(
            f"{written} is no instant: write milliseconds since the epoch, or 2015-07-01T00:00:00Z"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    if passed < timedelta(0):
        raise ValueError(f"{written} is before 1970")
    return passed // timedelta(milliseconds=1)


def to_iso(ms: int) -> str:
    """Write a duration as RSP-QL does: 600000 is PT10M, 500 is PT0.5S, 86400000 is P1D."""
    days, rest = divmod(ms, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, thousandths = divmod(rest, 1000)
    fraction = f".{thousandths:03}".rstrip("0") if thousandths else ""
    parts = [(days, "D"), (hours, "H"), (minutes, "M")]
    time = "".join(f"{n}{unit}" for n, unit in parts[1:] if n)
    time += f"{seconds}{fraction}S" if seconds or thousandths else ""
    return "P" + (f"{days}D" if days else "") + (f"T{time}" if time else "")


def to_unit(ms: int, names: tuple[str, ...] = ("ms", "s", "m", "h", "d"), gap: str = "") -> str:
    """Write a duration in the largest unit that divides it."""
    for size, name in zip((86_400_000, 3_600_000, 60_000, 1000), reversed(names[1:]), strict=True):
        if ms % size == 0:
            return f"{ms // size}{gap}{name}"
    return f"{ms}{gap}{names[0]}"
