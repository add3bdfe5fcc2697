"""`freshkeeper demo`."""

from typing import Annotated

import typer
from rich.text import Text

from freshkeeper.screen import Bar, print_json, show, table


def demo(
    budget: Annotated[float, typer.Option(help="requests per evaluation")] = 6,
    seed: Annotated[int, typer.Option(help="which stream and which changes")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print the standings as JSON")] = False,
) -> None:
    """Policies side by side under one budget, over an embedded source that somebody else changes.

    Example: `freshkeeper demo --budget 3`
    """
    from simulator.demo import compete

    bar = Bar(f"120 evaluations, {budget:g} requests each")
    with bar.running():
        standings = compete(budget, seed, bar.update)
    if as_json:
        print_json([vars(standing) for standing in standings])
        return
    best = max(standing.freshness for standing in standings)
    rows: list[list[str | Text]] = [
        [
            Text(s.policy, style="bold" if s.freshness == best else ""),
            f"{s.freshness:.1%}",
            f"{s.believed:.1%}",
            f"{s.requests:.2f}",
            f"{s.decide_us:.0f}",
        ]
        for s in standings
    ]
    columns = ["policy", "fresh answers", "believed fresh", "requests per evaluation", "µs per decision"]
    caption = "Nobody is told when data changes; 'believed' is what the view itself says, without the truth."
    show(table(f"Fresh answers with {budget:g} requests per evaluation", columns, rows, caption=caption))
