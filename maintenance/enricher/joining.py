"""The keys of events."""

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Any, TypeAlias

from freshkeeper.maintenance.base.errors import InputError

KeyOf: TypeAlias = str | int | Callable[[Any], Hashable]
"""A field's name or place, or a function of the event."""


def key_reader(key: KeyOf) -> Callable[[Any], Hashable]:
    """Return a function that reads the key of an event."""
    return key if callable(key) else itemgetter(key)


def no_key(event: object, error: Exception) -> InputError:
    """Return the error for an event without a key."""
    return InputError(f"the event {event!r} has no key: {type(error).__name__}: {error}")
