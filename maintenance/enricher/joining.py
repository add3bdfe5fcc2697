"""How an event tells its key."""

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Any, TypeAlias

from freshkeeper.maintenance.base.errors import InputError

KeyOf: TypeAlias = str | int | Callable[[Any], Hashable]
"""A field's name or place, or a function of the event."""


def key_reader(key: KeyOf) -> Callable[[Any], Hashable]:
    """A function that reads it."""
    return key if callable(key) else itemgetter(key)


def no_key(event: object, error: Exception) -> InputError:
    """An event that has none."""
    return InputError(f"the event {event!r} has no key: {type(error).__name__}: {error}")
