"""Parsing of options: durations, key=value, IRI=FILE."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from freshkeeper.maintenance.base import durations
from freshkeeper.maintenance.base.durations import to_ms
from freshkeeper.maintenance.base.errors import ConfigError

SWEEP_HELP = 'vary any key: a list (budget=5,10) or a range (workload.edges="250..4000 times 2")'
FIXED_KEYS = ("policies", "trace", "seeds")
"""Keys whose commas or dots do not declare a grid."""


def assignments(written: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Parse `--set key=value`; values are YAML."""
    import yaml

    found = {}
    for each in written or []:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} {each}: write it as key=value, for example {option} workload.edges=500")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigError(
                f"{option} {each}: {value!r} is no value; quote it or write a number, a word or [a, b]"
            ) from None
    return found


def changed(given: Mapping[str, Any], written: list[str] | None, sweep: list[str] | None = None) -> dict[str, Any]:
    """Merge keys given by options, by `--set` and by `--sweep`; raise ConfigError for a key given twice.

    `--budget 5,10` is short for `--sweep budget=5,10`.
    """
    changes, grid = assignments(written), assignments(sweep, "--sweep")
    fixed = dict(given)
    for key, value in given.items():
        if isinstance(value, str) and key not in FIXED_KEYS and ("," in value or ".." in value):
            if key in grid:
                raise ConfigError(f"{key} is given twice, by an option and by --sweep; leave one of them out")
            grid[key] = fixed.pop(key)
    if twice := given.keys() & changes:
        raise ConfigError(f"{min(twice)} is given twice, by an option and by --set; leave one of them out")
    if grid:
        if "sweep" in changes:
            raise ConfigError("sweep is given twice, by an option and by --set; leave one of them out")
        changes["sweep"] = grid
    return {**changes, **fixed}


def duration(name: str, written: str, read: Callable[[str], int] = to_ms) -> int | None:
    """Parse `4s`, `PT4S` or milliseconds; return None for an empty text."""
    return durations.duration(f"--{name}", written, read) if written else None


EXAMPLES = {
    "IRI=FILE": "s=s.nq",
    "IRI=P,P": "blog=http://example.org/followers",
    "IRI=N": "blog=2",
    "IRI=SHARE": "blog=0.5",
}
"""The part after http://example.org/ in the example of each form."""


def pairs(name: str, written: list[str] | None, form: str = "IRI=FILE") -> dict[str, str]:
    """`--name IRI=FILE`, several times; the last = parts them, or the first before an address: either may hold more."""
    found: dict[str, str] = {}
    for each in written or []:
        address = re.search(r"=(?=(?:fragments:)?<?\w+://)", each)
        key, equals, value = (each[: address.start()], "=", each[address.end() :]) if address else each.rpartition("=")
        if not equals or not key or not value:
            raise ConfigError(f"--{name} {each}: write it as {form}, for example http://example.org/{EXAMPLES[form]}")
        iri = key.removeprefix("<").removesuffix(">")
        if iri in found:
            raise ConfigError(f"--{name} names <{iri}> twice")
        found[iri] = value
    return found


SPEAKING = "how triples are annotated: graph, reification, singleton, star or implicit"
TIMING = "their times: expiration, interval, or flat (on the mark itself, closed at the end)"
"""Help for the encoding of times."""
