"""How each policy looks, in every plot alike: a colour that colour-blind people can tell from the others, and a shape
and a dash besides, for those who see none and for paper.

Colours are CSS variables of page.css (Okabe and Ito's, and lighter ones of the same hues in the dark); PNGs, which have
no style sheet, get the values of LIGHT. Baselines are grey so that what is compared with them stands out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from freshkeeper.simulator.experiment.run_directory import Run

LIGHT = {
    "paper": "#ffffff",
    "ink": "#16191d",
    "muted": "#5b626b",
    "grid": "#e3e6ea",
    "shade": "#eceff2",
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "orange": "#e69f00",
    "purple": "#cc79a7",
    "sky": "#56b4e9",
    "grey": "#8a9099",
}
"""What page.css says in the light; a test holds the two equal."""

HUES = ("blue", "vermilion", "green", "orange", "purple", "sky")
USUAL = {"plan": "blue", "ibm": "vermilion", "sbm": "green", "gain": "orange", "bundle": "purple", "fba": "sky"}
PLAIN = {"random": "grey", "lru": "muted", "oracle": "ink"}
PLAIN |= {"ttl": "ink", "refresh-ahead": "grey", "no-cache": "muted", "fetch-once": "muted"}
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
PATHS = {
    "circle": "M10 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "triangle-up": "M14 1.5l4.5 8h-9z",
    "square": "M10.5 2.5h7v7h-7z",
    "diamond": "M14 1l4.5 5l-4.5 5l-4.5-5z",
    "cross": "M12.6 1.5h2.8v3.1h3.1v2.8h-3.1v3.1h-2.8v-3.1h-3.1v-2.8h3.1z",
    "triangle-down": "M14 10.5l4.5-8h-9z",
    "triangle-right": "M18.5 6l-8 4.5v-9z",
    "triangle-left": "M9.5 6l8 4.5v-9z",
}
"""The same shapes in a box of 28 × 12, for tables."""

DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (5, 2), (1, 3))
BOUND_DASHES: tuple[tuple[int, ...], ...] = ((10, 4), (3, 4), (10, 4, 3, 4))


@dataclass(frozen=True)
class Style:
    """How one policy looks in every chart of a page."""

    colour: str
    shape: str
    dash: tuple[int, ...]

    @property
    def paint(self) -> str:
        """The colour as CSS."""
        return css(self.colour)

    @property
    def path(self) -> str:
        """The shape as an SVG path; none for a bound."""
        return PATHS.get(self.shape, "")


def css(colour: str) -> str:
    """A colour of the style sheet."""
    return f"var(--{colour})"


def styles(run: Run, policies: Sequence[str]) -> dict[str, Style]:
    """One style per label. A policy with other settings keeps its colour and gets another dash and shape."""
    names = {label: run.contender(label).name or label for label in policies}
    return looks(names, [label for label in policies if run.contender(label).is_bound])


def looks(names: Mapping[str, str], bounds: Sequence[str] = ()) -> dict[str, Style]:
    """The same for labels, each with the name of its policy."""
    others = [label for label in names if label not in bounds]
    colours = _colours([names[label] for label in others])
    shapes, seen = cycle(SHAPES), dict.fromkeys(colours.values(), 0)
    found: dict[str, Style] = {}
    for label in others:
        colour = colours[names[label]]
        found[label] = Style(colour, next(shapes), DASHES[seen[colour] % len(DASHES)])
        seen[colour] += 1
    dashes = cycle(BOUND_DASHES)
    return found | {label: Style("muted", "stroke", next(dashes)) for label in bounds}


def _colours(names: Sequence[str]) -> dict[str, str]:
    """The usual colour where there is one; strangers get the hues that are left."""
    known = USUAL | PLAIN
    free = [hue for hue in HUES if hue not in {known.get(name) for name in names}]
    rest = cycle(free or HUES)
    return {name: known.get(name) or next(rest) for name in dict.fromkeys(names)}
