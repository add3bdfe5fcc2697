"""Draws the maintenance graph of the paper's Figure 1 as docs/maintenance-graph.png: what `sbm` sees and chooses."""

import sys
from pathlib import Path

import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from freshkeeper.maintenance.cache.demand.inspection import to_networkx
from freshkeeper.policies.base import Budget
from freshkeeper.policies.registry import make
from freshkeeper.policies.rounds_by_hand import round_of

FIGURE_1 = [(0, 0), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]
WINDOW = [1, 2, 1]
WORDS = {"sn": "key", "sr": "entry"}


def draw(out: Path) -> None:
    """Lookup keys with their mappings on the left, entries with their demand on the right; chosen ones filled."""
    round = round_of(FIGURE_1, WINDOW, [1, 1, 1])
    graph = to_networkx(round, make("sbm").select(round, Budget(2, 2), np.random.default_rng(0)))
    place = {node: (0.0 if node[0] == "sn" else 1.0, -float(node[1])) for node in graph}
    figure = Figure(figsize=(6.4, 3.4))
    axes = figure.subplots()
    nx.draw_networkx_edges(graph, place, ax=axes, edge_color="#888888")
    for node, known in graph.nodes(data=True):
        x, y = place[node]
        chosen = known.get("chosen", False)
        colour = "#0072B2" if chosen else "#FFFFFF"
        axes.scatter([x], [y], s=900, c=colour, edgecolors="#333333", zorder=3)
        axes.text(x, y, f"{WORDS[node[0]]}\n{node[1] + 1}", ha="center", va="center", zorder=4, fontsize=8,
                  color="#FFFFFF" if chosen else "#222222")  # fmt: skip
        said = f"c = {known['mappings']:g}" if node[0] == "sn" else f"w = {known['demand']:g}"
        axes.text(x + (-0.13 if node[0] == "sn" else 0.13), y, said, va="center", fontsize=10,
                  ha="right" if node[0] == "sn" else "left")  # fmt: skip
    axes.set(xlim=(-0.5, 1.5), ylim=(-2.6, 0.9), title="Figure 1 with γ = 2: sbm refreshes entries 1 and 3")
    axes.axis("off")
    figure.savefig(out, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("maintenance-graph.png"))
