"""Kernels are compiled when they are first used and kept on disk; whoever waits for that is told so, once."""

from collections.abc import Callable
from dataclasses import dataclass

from numba.core import event

WAITING = "compiling what runs in the CPU's own code, once for this installation: it takes about ten seconds"


@dataclass(eq=False)
class _CompileListener(event.Listener):
    tell: Callable[[str], None]
    said: bool = False

    def on_start(self, event: event.Event) -> None:
        """A kernel was not on disk."""
        del event
        if not self.said:
            self.said = True
            self.tell(WAITING)

    def on_end(self, event: event.Event) -> None:
        """Nothing to tell: that it began was told."""


def tell_when_compiling(tell: Callable[[str], None]) -> Callable[[], None]:
    """Say it when a kernel is compiled from now on; call what this returns to say no more.

    Where the package's directory cannot be written to, kernels are kept in the user's cache directory, and with
    NUMBA_CACHE_DIR in that one.
    """
    listener = _CompileListener(tell)
    event.register("numba:compile", listener)
    return lambda: event.unregister("numba:compile", listener)
