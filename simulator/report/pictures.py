"""The page's figures in a notebook: pictures, each with its words."""

from dataclasses import dataclass
from pathlib import Path

from freshkeeper.simulator.report.page import figures_of
from freshkeeper.simulator.report.png import svg


@dataclass(frozen=True)
class Picture:
    """A plot as a notebook shows it; printed, it is its words."""

    key: str
    choice: str
    words: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        """For those who cannot see it."""
        return self.words


def pictures(run: Path, *keys: str, choice: str = "") -> list[Picture]:
    """The figures of a run with these keys, all of them without any; of some choice alone, as `budget=5`."""
    return [
        Picture(figure.key, named, view.words, svg(figure, named, view))
        for figure in figures_of(run)
        if not keys or figure.key in keys
        for named, view in figure.views.items()
        if not choice or named == choice
    ]
