"""Reports when numba compiles kernels, which happens at their first use and is cached on disk."""

from collections.abc import Callable
from dataclasses import dataclass

from numba.core import event

WAITING = "compiling native code (once per installation, about 10 s)"


@dataclass(eq=False)
class _CompileListener(event.Listener):
    report: Callable[[str], None]
    reported: bool = False

    def on_start(self, _: event.Event) -> None:
        """Report the first kernel that is not in the disk cache."""
        if not self.reported:
            self.reported = True
            self.report(WAITING)

    def on_end(self, _: event.Event) -> None:
        """Do nothing: only the start is reported."""


def tell_when_compiling(tell: Callable[[str], None]) -> Callable[[], None]:
    """Report once when a kernel is compiled from now on; call the returned function to stop.

    Numba caches kernels in the package's directory, in the user's cache directory if that is read-only, and always in
    NUMBA_CACHE_DIR if that is set.
    """
    listener = _CompileListener(tell)
    event.register("numba:compile", listener)
    return lambda: event.unregister("numba:compile", listener)
