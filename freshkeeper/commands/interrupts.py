"""Ctrl-C, and a service manager's SIGTERM, in the middle of compiled code: numba makes another error of it."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for an error that compiled code made of an interrupt."""
    try:
        yield
    except SystemError as error:
        if was_interrupt(error):
            raise KeyboardInterrupt from None
        raise


def was_interrupt(error: BaseException | None) -> bool:
    """Tell whether an interrupt caused an error, directly or not."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, KeyboardInterrupt):
            return True
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            waiting += [one.__cause__, one.__context__]
    return False
