"""Parsing of options: durations, key=value, IRI=FILE."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from freshkeeper.maintenance.base import durations
from freshkeeper.maintenance.base.durations import to_ms
from freshkeeper.maintenance.base.errors import ConfigError


def assignments(written: list[str] | None) -> dict[str, Any]:
    """Parse `--set key=value`; values are YAML."""
    import yaml

    found = {}
    for each in written or []:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {each}: write it as key=value, for example --set workload.edges=500")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigError(
                f"--set {each}: {value!r} is no value; quote it or write a number, a word or [a, b]"
            ) from None
    return found


def changed(given: Mapping[str, Any], written: list[str] | None) -> dict[str, Any]:
    """Merge keys given by options and by `--set`; raise ConfigError for a key given twice."""
    changes = assignments(written)
    if twice := given.keys() & changes:
        raise ConfigError(f"{min(twice)} is given twice, by an option and by --set; leave one of them out")
    return {**changes, **given}


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
