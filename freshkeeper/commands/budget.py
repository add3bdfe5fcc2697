"""`freshkeeper budget`."""

import shlex
import sys
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.experiments import free, processes
from freshkeeper.commands.interrupts import interruptible
from freshkeeper.commands.model_options import given_keys, options_of
from freshkeeper.commands.options import changed
from freshkeeper.commands.screen import Bar, TextTable, print_json, say, show
from freshkeeper.commands.trace import CHANGES, EDGES, UNIT, trace_of_files
from freshkeeper.maintenance.base.errors import ConfigError, InputError, StoppedError

if TYPE_CHECKING:
    from freshkeeper.simulator.budget.answer import BudgetAnswer
    from freshkeeper.simulator.budget.question import Question
    from freshkeeper.simulator.experiment.point import Point
    from freshkeeper.simulator.experiment.replay import Replay

KEYS = ("policies", "knowledge", "case", "bank", "window", "step", "start", "seeds")
TRIES_EACH = 6
"""The approximate number of budgets that a search tries, for the progress bar."""


def budget(
    source: Annotated[
        str,
        Argument(
            metavar="TRACE|JOURNAL|FILE[:TIME,KEY]",
            help="a trace, a run or a journal; or a file with two columns: time and key",
        ),
    ],
    target: Annotated[float, Option(help="the share of answers that must be fresh")] = 0.95,
    price: Annotated[float, Option(help="the price of one request, in any currency")] = 0.0,
    per: Annotated[str, Option(help="count requests and money per hour, day, week, month or year")] = "day",
    once: Annotated[bool, Option("--once", help="answer every event once, when it arrives")] = False,
    edges: Annotated[str, Option(metavar="FILE[:KEY,ENTRY]", help=EDGES)] = "",
    changes: Annotated[str, Option(metavar="FILE[:TIME,ENTRY[,VALUE]]", help=CHANGES)] = "",
    unit: Annotated[str, Option(help=UNIT)] = "",
    setting: Annotated[str, Option(help="the setting of a journal to use; for a query, a source")] = "",
    change: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="set any key of the experiment")
    ] = None,
    jobs: Annotated[int, Option(min=0, help="number of processes; 0: as many as are useful")] = 0,
    out: Annotated[Path | None, Option(help="the directory for the page; default: a new one in runs")] = None,
    as_json: Annotated[bool, Option("--json", help="print the answer as one line of JSON")] = False,
    **options: Any,
) -> None:
    """Find the least budget for a target freshness and its cost, compared with TTL caches.

    Window and step default to a suggestion from the trace, which is printed. The search assumes that only refreshes
    reveal changes (--knowledge) and that the cache starts empty (--start).

    Examples: `freshkeeper budget out/mine --target .95 --price 0.0004`,
    `freshkeeper budget clicks.csv:at,product --changes prices.csv:at,product,price --once`
    """
    from freshkeeper.simulator.budget.answer import answer
    from freshkeeper.simulator.budget.budget_page import write
    from freshkeeper.simulator.budget.question import Question
    from freshkeeper.simulator.budget.words import as_json as plain
    from freshkeeper.simulator.budget.words import lead, sentences
    from freshkeeper.simulator.experiment.experiment_config import Experiment

    name = Path(source.rpartition(":")[0] or source).resolve().name.split(".")[0]
    place = out or free(f"{name}-budget")
    if (place / "budget.html").exists():
        raise ConfigError(f"{place} holds an answer already; name another directory (--out)")
    given = changed(given_keys(Experiment, options), change)
    found = _replayed(source=source, files=(edges, changes, unit), given=given, place=place, setting=setting, once=once)
    question = Question(found.experiment, target, price, per)
    for note in found.notes:
        say(note)
    tried = _BudgetTable(question)
    try:
        with interruptible(), tried.bar.running():
            result = answer(question, jobs or _processes(question), tried.add, found.notes)
    except KeyboardInterrupt:
        raise StoppedError("stopped; nothing was written") from None
    page = write(result, place, name, shlex.join(["freshkeeper", *sys.argv[1:]]))
    if as_json:
        print_json({"page": str(page), **plain(result)})
        return
    show(as_table(result))
    for line in [lead(result), *sentences(result), f"page: {page}"]:
        say(line)


def options() -> Iterator[Parameter]:
    """Yield the options for keys of an experiment."""
    from freshkeeper.simulator.experiment.experiment_config import Experiment

    yield from options_of(Experiment, KEYS, defaults=False)


def _replayed(
    source: str, files: tuple[str, str, str], given: dict[str, Any], place: Path, setting: str, once: bool
) -> "Replay":
    """Return the experiment to run; the trace of a file is first written beside the page."""
    from freshkeeper.simulator.budget.question import assumed
    from freshkeeper.simulator.experiment.replay import Replay, replay_of

    if once and "window" in given:
        raise ConfigError("--once makes the window one step; leave --window out")
    trace, where = place / "trace", Path(source)
    notes: list[str] = []
    if not where.is_dir():
        notes = trace_of_files(trace, source, *files)
        where = trace
    elif any(files):
        raise InputError(
            f"{source} is a directory and has edges and changes of its own; --edges and --changes are for a file"
        )
    found = replay_of(where, assumed(where, given), place / "trace", setting)
    made = found.experiment
    if once:
        made = made.model_copy(update={"window": made.step})
        notes.append("Every event is answered once: the window is one step.")
    return Replay(made, [*notes, *found.notes])


class _BudgetTable:
    """The table of budgets tried so far, shown while the search runs."""

    def __init__(self, question: "Question") -> None:
        self._question, self.bar = question, Bar("trying budgets")
        self._points: list[Point] = []

    def add(self, point: "Point") -> None:
        """Redraw the table with one more point."""
        from freshkeeper.simulator.budget.words import requests

        self._points.append(point)
        rows = [
            [one.curve, f"{one.knob:g}", requests(self._question, one), f"{one.freshness.mean:.3f}"]
            for one in self._points[-self.bar.room :]
        ]
        heads = ["policy", "γ", f"requests a {self._question.per}", "freshness"]
        expected = max(TRIES_EACH * len(self._question.policies), len(self._points) + 1)
        self.bar.update(len(self._points), expected, TextTable("", heads, rows))


def _processes(question: "Question") -> int:
    """Return the number of processes: a search tries one budget at a time, so one per search and seed is enough."""
    together = len(question.policies) * len(question.experiment.seed_list)
    return processes(question.experiment, together, together * TRIES_EACH)


def as_table(result: "BudgetAnswer") -> TextTable:
    """Return one row per policy and cache, narrow enough for a terminal of 80 columns."""
    from freshkeeper.simulator.budget.words import HEADS, marks, row

    question, chosen = result.question, result.question.experiment
    signs: dict[str, str] = {}  # of a mark, explained in the caption
    for requirement in result.needed:
        for mark in marks(requirement):
            if mark not in signs:
                signs[mark] = "*†"[len(signs)]
    left_out = set()
    if not question.price:
        left_out.add("Cost")
    if chosen.window == chosen.step:  # every event is answered once, so both shares of fresh answers are the same
        left_out.add("At arrival")
    columns = [n for n, head in enumerate(HEADS) if head not in left_out]
    heads = []
    for n in columns:
        per = f" a {question.per}" if HEADS[n] in ("Requests", "Cost") else ""
        heads.append(HEADS[n].lower() + per)
    rows = []
    for requirement in result.needed:
        name = requirement.curve + "".join(signs[mark] for mark in marks(requirement))
        cells = [name, *row(result, requirement)[1:]]
        rows.append([cells[n] for n in columns])
    caption = ", ".join(f"{sign} {mark}" for mark, sign in signs.items())
    return TextTable(
        f"What {question.target:.4g} of the answers fresh needs",
        heads,
        rows,
        words=2,
        caption=caption,
        narrow=True,
        bold=next((n for n, requirement in enumerate(result.needed) if requirement is result.best), None),
    )
