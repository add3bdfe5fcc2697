"""Numbers in words, the same on every page."""

from collections.abc import Mapping, Sequence
from math import isfinite, isnan

from freshkeeper.maintenance.base.stats import Estimate

GAP = "\N{NO-BREAK SPACE}"
UNKNOWN = "–"
MAX_LABEL_LENGTH = 34
"""Characters of a name beside a chart."""
MS_BY_UNIT = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage."""
    if not isfinite(share):
        return UNKNOWN
    return f"{100 * share:.{digits}f}{GAP}%"


def percent_with_interval(value: Estimate) -> str:
    """Return a share as a percentage with its interval."""
    return percent(value.mean) + _half(value, 1)


def points(value: Estimate, sign: bool = False) -> str:
    """Return a difference of shares in percentage points, with or without its sign."""
    if not isfinite(value.mean):
        return UNKNOWN
    digits = 2
    if abs(value.mean) >= 0.01 or not value.mean:
        digits = 1
    difference = f"{signed_points(value.mean, digits)}{GAP}points"
    if not sign:
        difference = difference.lstrip("+−")
    half = _half(value, digits).lstrip()
    if half:
        return f"{difference} ({half})"
    return difference


def signed_points(difference: float, digits: int = 1) -> str:
    """Return a difference of shares as a number of percentage points with its sign."""
    if not isfinite(difference):
        return UNKNOWN
    return f"{100 * difference:+.{digits}f}".replace("-", "−")


def _half(value: Estimate, digits: int) -> str:
    if not isfinite(value.half):
        return ""
    return f" ±{GAP}{100 * value.half:.{digits}f}"


def amount(value: float) -> str:
    """Return a count or a cost with no more digits than people read."""
    if not isfinite(value):
        return UNKNOWN
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


def duration(ms: float) -> str:
    """Return a time from microseconds to days in its own unit."""
    if isnan(ms):
        return UNKNOWN
    for unit, size in MS_BY_UNIT.items():
        if ms >= size:
            return f"{ms / size:.3g}{GAP}{unit}"
    if not ms:
        return f"0{GAP}ms"
    return f"{ms * 1000:.3g}{GAP}µs"


def shortened(text: str, most: int = MAX_LABEL_LENGTH) -> str:
    """Return a text with an ellipsis in its middle if it is too long: names often differ at their ends alone."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def listing(words: Sequence[str]) -> str:
    """Return "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def swept_key(key: str) -> str:
    """Return the last part of a dotted key as words, without its unit, which the values have."""
    return key.rpartition(".")[2].removesuffix("_ms").replace("_", " ")


def swept_value(value: object, key: str = "") -> str:
    """Return a value of a swept key, a range as its two ends, and times with a unit."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return " to ".join(swept_value(end, key) for end in value)
    if key.endswith("_ms") and isinstance(value, int | float):
        return duration(value)
    return config_value(value)


def in_words(values: Mapping[str, object]) -> str:
    """Return the values of several keys in words: "edges 200 · change law poisson"."""
    return " · ".join(f"{swept_key(key)} {swept_value(value, key)}" for key, value in values.items())


def config_value(value: object) -> str:
    """Return a value of a config; what is empty is left out of a mapping, and a lone name stands alone."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float) and abs(value) >= 1e6:
        return f"{value:,.0f}"
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        nested = any(isinstance(part, list | tuple) for part in value)
        return ", ".join(map(swept_value if nested else config_value, value))
    if isinstance(value, Mapping):
        filled = {key: part for key, part in value.items() if part not in ("", None, {}, [])}
        if "name" in filled:
            settings = ", ".join(f"{key}={config_value(part)}" for key, part in filled.items() if key != "name")
            return f"{filled['name']}({settings})".removesuffix("()")
        return ", ".join(f"{key} {config_value(part)}" for key, part in filled.items())
    return str(value)


def duration_axis(longest_ms: float) -> tuple[str, float]:
    """Return the unit of an axis for times up to so many ms, and how many ms it has."""
    units = {"days": 86_400_000.0, "hours": 3_600_000.0, "minutes": 60_000.0, "seconds": 1000.0}
    return next(((unit, ms) for unit, ms in units.items() if longest_ms >= 2 * ms), ("milliseconds", 1.0))
