"""The freshness report: one offline HTML page per run directory; `page` makes it, the other files are its parts."""

from pathlib import Path


def write_report(run: Path, out: Path | None = None, png: Path | None = None) -> Path:
    """Write the page of a run (report.html in it, or `out`), and its plots as PNG into the directory `png`."""
    # Reading a run needs this package too, and whoever only checks one should not wait for the plots.
    from freshkeeper.simulator.report.page import write

    return write(run, out, png)
