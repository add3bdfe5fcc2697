"""The looks of policies in every chart: a colour that colour-blind people can tell from the others, a shape and a dash.

Colours are CSS variables of colours.css (Okabe and Ito's, and lighter ones of the same hues in the dark). Baselines are
grey, so that what is compared with them stands out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

COLOURS = Path(__file__).with_name("colours.css").read_text("utf-8")
LIGHT: Mapping[str, str] = dict(re.findall(r"--(\w+): (#\w+);", COLOURS.partition("@media")[0]))
"""The values in the light, for pictures, which have no style sheet."""

HUES = ("blue", "vermilion", "green", "orange", "purple", "sky")
COLOUR_OF_POLICY = {
    "plan": "blue", "ibm": "vermilion", "sbm": "green", "gain": "orange", "bundle": "purple", "fba": "sky",
    "random": "grey", "lru": "muted", "oracle": "ink",
    "ttl": "ink", "refresh-ahead": "grey", "no-cache": "muted", "fetch-once": "muted",
}  # fmt: skip
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
"""The shapes of Vega as SVG paths in a box of 28 × 12, for tables."""
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (5, 2), (1, 3))
BOUND_DASHES: tuple[tuple[int, ...], ...] = ((10, 4), (3, 4), (10, 4, 3, 4))


@dataclass(frozen=True)
class Style:
    """The looks of one policy in every chart of a page."""

    colour: str
    shape: str
    dash: tuple[int, ...]

    @property
    def paint(self) -> str:
        """The colour as CSS."""
        return css(self.colour)

    @property
    def path(self) -> str:
        """The shape as an SVG path; empty for a bound, which has no marks."""
        return PATHS.get(self.shape, "")


def css(colour: str) -> str:
    """Return a colour of the style sheet as CSS."""
    return f"var(--{colour})"


def looks(names: Mapping[str, str], bounds: Sequence[str] = ()) -> dict[str, Style]:
    """Return a style per label, given the name of each label's policy.

    A policy that is there with several settings keeps its colour and gets another dash and shape for each.
    """
    others = [label for label in names if label not in bounds]
    colours = _colours([names[label] for label in others])
    shapes, seen = cycle(PATHS), dict.fromkeys(colours.values(), 0)
    found: dict[str, Style] = {}
    for label in others:
        colour = colours[names[label]]
        found[label] = Style(colour, next(shapes), DASHES[seen[colour] % len(DASHES)])
        seen[colour] += 1
    dashes = cycle(BOUND_DASHES)
    return found | {label: Style("muted", "stroke", next(dashes)) for label in bounds}


def _colours(names: Sequence[str]) -> dict[str, str]:
    """Return each policy's own colour; policies that have none get the hues that are left."""
    used = {COLOUR_OF_POLICY.get(name) for name in names}
    rest = cycle([hue for hue in HUES if hue not in used] or HUES)
    return {name: COLOUR_OF_POLICY.get(name) or next(rest) for name in dict.fromkeys(names)}
