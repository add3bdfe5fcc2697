"""`freshkeeper demo`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from freshkeeper.commands.command_line import Option
from freshkeeper.commands.screen import Bar, TextTable, print_json, say, show

if TYPE_CHECKING:
    from freshkeeper.simulator.demo import Standing

COLUMNS = ["policy", "fresh answers", "believed fresh", "requests per evaluation", "µs per decision"]
HOUR = 3_600
CAPTION = "Nobody is told when data changes; 'believed' is what the view itself says, without the truth."


def demo(
    policy: Annotated[str, Option(metavar="A,B", help="the policies to compare")] = "lru,ibm,plan",
    budget: Annotated[float, Option(help="requests per evaluation")] = 3,
    seed: Annotated[int, Option(min=0, help="random seed of the stream and the changes")] = 0,
    out: Annotated[Path, Option(help="the directory for the data, the journal and the page")] = Path("runs/demo"),
    as_json: Annotated[bool, Option("--json", help="print the standings as JSON")] = False,
    serve: Annotated[
        bool,
        Option("--serve", help="afterwards show it live on a page, until Ctrl-C or for an hour; needs a terminal"),
    ] = False,
) -> None:
    """Run one query over a stream and a changing source with several policies side by side, under one budget.

    Examples: `freshkeeper demo --budget 6`, `freshkeeper demo --policy random,sbm,plan`, `freshkeeper demo --serve`
    """
    from freshkeeper.policies.registry import split
    from freshkeeper.simulator.demo import SECONDS, Contest
    from freshkeeper.simulator.report.page import write_report

    contest = Contest(out, split(policy), budget, seed, shlex.join(["freshkeeper", *sys.argv[1:]]))
    title = f"Fresh answers with {budget:g} requests per evaluation"
    bar = Bar(f"{SECONDS} evaluations, {budget:g} requests each")
    with bar.running():
        for standings in contest.run():
            bar.update(min(standing.evaluations for standing in standings), SECONDS, _table(title, standings))
    page, standings = write_report(out), list(contest.standings.values())
    if as_json:
        print_json([standing.as_json() for standing in standings])
    else:
        show(_table(title, standings, CAPTION))
        say(f"The query and its data are in {out}; look at {page}")
        say(f"One policy alone, answer by answer: freshkeeper run {out / 'demo.yaml'}")
    if serve:
        show_on_page(out)


def show_on_page(out: Path) -> None:
    """Show the demo live on a page, if a terminal can stop it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say("The live page needs a terminal to stop it from: run freshkeeper demo --serve in one")
        return
    from freshkeeper.simulator.live_demo import show_live

    say("Now live, until Ctrl-C or for an hour: open the page at this address.")
    show_live(out, HOUR, say)


def _table(title: str, standings: "list[Standing]", caption: str = "") -> TextTable:
    best = max(standings, key=lambda standing: standing.freshness)
    rows = []
    for standing in standings:
        told = standing.as_json()
        shares = [f"{standing.freshness:.1%}", f"{told['believed']:.1%}"]
        rows.append([standing.policy, *shares, f"{told['requests']:.2f}", f"{told['decide_us']:.0f}"])
    return TextTable(title, COLUMNS, rows, caption=caption, bold=standings.index(best))
