"""Prints the tables of docs/paper.md from run directories: `python docs/paper_tables.py runs/fig2a runs/fig2b ...`."""

import sys
from pathlib import Path

from freshkeeper.simulator.experiment.paper import freshness_table

if __name__ == "__main__":
    for name in sys.argv[1:]:
        head, *rows = freshness_table(Path(name))
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        print(f"<!-- {Path(name).name} -->")
        print("\n".join(f"| {' | '.join(line)} |" for line in lines), end="\n\n")
