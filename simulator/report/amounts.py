"""Numbers in words, the same everywhere on the page."""

from collections.abc import Mapping
from math import isfinite, isnan

from freshkeeper.simulator.report.intervals import Estimate

GAP = "\N{NO-BREAK SPACE}"
NOTHING = "–"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage."""
    return f"{100 * share:.{digits}f}{GAP}%" if isfinite(share) else NOTHING


def percent_with_interval(value: Estimate) -> str:
    """A share with its interval."""
    return percent(value.mean) + (f" ±{GAP}{100 * value.half:.1f}" if isfinite(value.half) else "")


def signed(share: float, digits: int = 1) -> str:
    """A difference of shares, in percent, with its sign."""
    return f"{'+' if share >= 0 else '−'}{100 * abs(share):.{digits}f}{GAP}%" if isfinite(share) else NOTHING


def signed_with_interval(value: Estimate) -> str:
    """A difference with its interval; a decimal where it is small."""
    digits = 0 if abs(value.mean) >= 0.1 else 1
    return signed(value.mean, digits) + (f" ±{GAP}{100 * value.half:.{digits}f}" if isfinite(value.half) else "")


def points(value: Estimate) -> str:
    """A difference of shares in percentage points, without its sign."""
    digits = 1 if abs(value.mean) >= 0.01 else 2
    interval = f" (±{GAP}{100 * value.half:.{digits}f})" if isfinite(value.half) else ""
    return f"{100 * abs(value.mean):.{digits}f}{GAP}points{interval}"


def amount(value: float) -> str:
    """A count or a cost: no more digits than anybody reads."""
    if not isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.3g}"


def duration(ms: float) -> str:
    """A time from microseconds to days, in its own unit."""
    if isnan(ms):
        return NOTHING
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)):
        if ms >= size:
            return f"{ms / size:.3g}{GAP}{unit}"
    return f"{ms * 1000:.3g}{GAP}µs" if ms else f"0{GAP}ms"


def listing(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def value(number: object) -> str:
    """A value of a swept key, short: a range as its two ends."""
    if isinstance(number, list | tuple) and len(number) == 2:
        return " to ".join(map(value, number))
    return listed(number)


def listed(number: object) -> str:
    """A value of a config, short: what is empty or not set is left out of a mapping, and a lone name stands alone."""
    if isinstance(number, bool) or number is None:
        return str(number).lower()
    if isinstance(number, int | float):
        return f"{number:g}" if abs(number) < 1e6 else f"{number:,.0f}"
    if isinstance(number, list | tuple):
        return ", ".join(map(listed, number))
    if isinstance(number, Mapping):
        told = {key: part for key, part in number.items() if part not in ("", None, {}, [])}
        return listed(told["name"]) if set(told) == {"name"} else ", ".join(f"{k} {listed(v)}" for k, v in told.items())
    return str(number)
