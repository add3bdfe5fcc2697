"""`freshkeeper budget`."""

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.interrupts import interruptible
from freshkeeper.commands.screen import Bar, TextTable, print_json, say, show
from freshkeeper.maintenance.base.errors import ConfigError, InputError, StoppedError, check_name
from freshkeeper.maintenance.enricher.settings import OnStale
from freshkeeper.simulator.budget.sheet import Sheet, as_percent, check_question, three_digits

if TYPE_CHECKING:
    from freshkeeper.simulator.budget.question import Question
    from freshkeeper.simulator.experiment.point import Point
    from freshkeeper.simulator.experiment.replay import Replay

TRIES_EACH = 6
"""The approximate number of budgets that a search tries, for the progress bar."""
MARK_SIGNS = "*†"
WINDOWS = "with windows: "


def budget(
    source: Annotated[
        str,
        Argument(
            metavar="FILE[:TIME,KEY]|TRACE|JOURNAL",
            help="a log of reads, a row for every read with when and which key; or the directory of a trace, a run or "
            "a journal, with windows",
        ),
    ],
    target: Annotated[float, Option(help="the share of reads that must be fresh; with windows, of answers")] = 0.95,
    price: Annotated[float, Option(help="the price of one request, in any currency")] = 0.0,
    per: Annotated[str, Option(help="count requests and money per hour, day, week, month or year")] = "day",
    changes: Annotated[
        str,
        Option(
            metavar="FILE[:TIME,ENTRY[,VALUE]]",
            help="when rows changed: a row for every change, or, with VALUE, observations of which those count that "
            "differ from the one before; or a journal, for changes that its refreshes saw",
        ),
    ] = "",
    unit: Annotated[str, Option(help="unit of times: s, ms, us, ns or iso; default: detected from the values")] = "",
    on_stale: Annotated[
        str, Option(help="wait: the read of a stale row waits for the fetch; serve: it gets the old row meanwhile")
    ] = "wait",
    skip_bad_rows: Annotated[
        bool, Option("--skip-bad-rows", help="leave out rows without a time or a key, and say how many")
    ] = False,
    policy: Annotated[str, Option(metavar="A,B", help=WINDOWS + "the policies (default: lru,gain,plan)")] = "",
    edges: Annotated[
        str, Option(metavar="FILE[:KEY,ENTRY]", help=WINDOWS + "the entries that a key needs; default: the key itself")
    ] = "",
    window: Annotated[str, Option(help=WINDOWS + "how long an answer is wanted; default: a suggestion")] = "",
    step: Annotated[str, Option(help=WINDOWS + "the time between evaluations; default: a suggestion")] = "",
    knowledge: Annotated[str, Option(help=WINDOWS + "what is known of changes (default: learned)")] = "",
    case: Annotated[str, Option(help=WINDOWS + "bgp or aggregate (default: bgp)")] = "",
    bank: Annotated[str, Option(help=WINDOWS + "the evaluations for which unspent budget keeps (default: 0)")] = "",
    start: Annotated[str, Option(help=WINDOWS + "warm or cold (default: cold)")] = "",
    seeds: Annotated[str, Option(help=WINDOWS + "the number of seeds")] = "",
    setting: Annotated[str, Option(help=WINDOWS + "the setting of a journal to use; for a query, a source")] = "",
    change: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help=WINDOWS + "set any key of the experiment")
    ] = None,
    jobs: Annotated[int, Option(min=0, help=WINDOWS + "number of processes; 0: as many as are useful")] = 0,
    out: Annotated[Path | None, Option(help="also write a page with the frontier into this directory")] = None,
    as_json: Annotated[bool, Option("--json", help="print the answer as one line of JSON")] = False,
) -> None:
    """Find the least budget for a target freshness and its cost, compared with TTL caches.

    A log of reads by key is played on an Enricher by its own clock: how fresh it is is what it delivers, and the line
    of Python that makes it is printed. The log is CSV, JSON lines or Parquet, also packed by gzip; encoding, delimiter,
    header, columns and the unit of times are detected, and printed. Columns are named behind the file, or by number.

    A trace with windows (a directory, or any of the options with windows) is run with policies. Window and step default
    to a suggestion from the trace, which is printed; only refreshes reveal changes (--knowledge) and the cache starts
    empty (--start).

    Examples: `freshkeeper budget clicks.csv:at,product --changes prices.csv:at,product,price --price 0.0004`,
    `freshkeeper budget out/mine --target .95 --policy lru,plan --out out/mine-budget`
    """
    check_question(target, price, per)
    check_name("--on-stale", on_stale, get_args(OnStale))
    given = {
        "policies": policy, "window": window, "step": step, "knowledge": knowledge, "case": case, "bank": bank,
        "start": start, "seeds": seeds,
    }  # fmt: skip
    with_windows = {key: value for key, value in given.items() if value}
    name = Path(source.rpartition(":")[0] or source).resolve().name.split(".")[0]
    if out is not None:
        from freshkeeper.simulator.budget import budget_page  # before the search, as it needs an extra

        if (out / "budget.html").exists():
            raise ConfigError(f"{out} holds an answer already; name another directory (--out)")
    files = {"edges": edges, "changes": changes, "unit": unit}
    if Path(source).is_dir() or edges or with_windows or change or setting:
        with TemporaryDirectory(prefix="freshkeeper-") as made:
            place = Path(made) if out is None else out
            replay = _replayed(source, files, place, given=with_windows, change=change, setting=setting)
            sheet = _of_windows((target, price, per), replay, jobs)
    else:
        terms = {"target": target, "price": price, "per": per, "on_stale": cast(OnStale, on_stale)}
        sheet = _of_log(source, changes, unit, skip_bad_rows=skip_bad_rows, terms=terms)
    page = ""
    if out is not None:
        page = str(budget_page.write(sheet, out, name, shlex.join(["freshkeeper", *sys.argv[1:]])))
    if as_json:
        print_json({**sheet.as_json(), **({"page": page} if page else {})})
        return
    show(as_table(sheet))
    for line in [sheet.lead, *sheet.sentences, *([f"page: {page}"] if page else [])]:
        say(line)
    if sheet.code:
        print(sheet.code)


def _of_log(source: str, changes: str, unit: str, skip_bad_rows: bool, terms: Mapping[str, Any]) -> Sheet:
    """Play a log of reads on an Enricher."""
    from freshkeeper.simulator.budget.log_answer import LogQuestion, answer_log
    from freshkeeper.simulator.budget.read_log import ReadLog
    from freshkeeper.simulator.trace.event_files import UNITS, NamedFile

    if unit:
        check_name("--unit", unit, UNITS)
    history = NamedFile.of(changes) if changes else None
    try:
        log = ReadLog.read(NamedFile.of(source), history, unit, skip_bad_rows, _Percent().update)
        for note in log.notes:
            say(note)
        progress = _Percent()

        def update(runs: int, share: float) -> None:
            progress.update("trying budgets", (runs + share) / max(TRIES_EACH + 1, runs + 2))

        return answer_log(LogQuestion(log, **terms), update)
    except KeyboardInterrupt:
        raise StoppedError("stopped; nothing was written") from None


class _Percent:
    """Progress in percent with the time left, redrawn on a terminal, and now and then elsewhere."""

    def __init__(self) -> None:
        self._what = ""
        self._begin = self._shown_at = time.monotonic()

    def update(self, what: str, share: float) -> None:
        """Show progress of what takes longer than a few seconds."""
        now = time.monotonic()
        if what != self._what:
            self._what, self._begin, self._shown_at = what, now, now
        on_terminal = sys.stderr.isatty()
        if now - self._shown_at < (0.5 if on_terminal else 5.0):
            return
        self._shown_at = now
        left = (now - self._begin) * (1 - share) / max(share, 1e-6)
        text = f"{what}: {100 * share:.0f} %, about {left // 60:.0f}:{left % 60:02.0f} left"
        if on_terminal:
            sys.stderr.write(f"\r{text}\x1b[K\r")
            sys.stderr.flush()
        else:
            say(text)


def _of_windows(terms: tuple[float, float, str], found: "Replay", jobs: int) -> Sheet:
    """Run policies in the simulated world."""
    from freshkeeper.commands.experiments import processes
    from freshkeeper.simulator.budget.answer import answer
    from freshkeeper.simulator.budget.question import Question
    from freshkeeper.simulator.budget.words import sheet

    question = Question(found.experiment, *terms)
    for note in found.notes:
        say(note)
    tried = _BudgetTable(question)
    # A search tries one budget at a time, so one process for each policy and seed is enough.
    together = len(question.policies) * len(question.experiment.seed_list)
    try:
        with interruptible(), tried.bar.running():
            workers = jobs or processes(question.experiment, together, together * TRIES_EACH)
            return sheet(answer(question, workers, tried.add, found.notes))
    except KeyboardInterrupt:
        raise StoppedError("stopped; nothing was written") from None


def _replayed(
    source: str, files: Mapping[str, str], place: Path, given: dict[str, Any], change: list[str] | None, setting: str
) -> "Replay":
    """Return the experiment to run; the trace of a file is first written to a place."""
    from freshkeeper.commands.options import changed
    from freshkeeper.commands.trace import trace_of_files
    from freshkeeper.simulator.budget.question import assumed
    from freshkeeper.simulator.experiment.replay import Replay, replay_of

    trace, where = place / "trace", Path(source)
    notes: list[str] = []
    if not where.is_dir():
        notes = trace_of_files(trace, source, **files)
        where = trace
    elif any(files.values()):
        raise InputError(
            f"{source} is a directory and has edges and changes of its own; --edges and --changes are for a file"
        )
    found = replay_of(where, assumed(where, changed(given, change)), trace, setting)
    return Replay(found.experiment, [*notes, *found.notes])


class _BudgetTable:
    """The table of budgets tried so far, shown while the search runs."""

    def __init__(self, question: "Question") -> None:
        self._question, self.bar = question, Bar("trying budgets")
        self._points: list[Point] = []

    def add(self, point: "Point") -> None:
        """Redraw the table with one more point."""
        self._points.append(point)
        rows = []
        for one in self._points[-self.bar.room :]:
            requests = three_digits(one.requests * self._question.periods)
            rows.append([one.curve, f"{one.knob:g}", requests, as_percent(one.freshness.mean)])
        heads = ["policy", "γ", f"requests a {self._question.per}", "fresh"]
        expected = max(TRIES_EACH * len(self._question.policies), len(self._points) + 1)
        self.bar.update(len(self._points), expected, TextTable("", heads, rows))


def as_table(sheet: Sheet) -> TextTable:
    """Return one row per policy and cache, narrow enough for a terminal of 80 columns."""
    marks = list(dict.fromkeys(mark for row in sheet.rows for mark in row.marks))
    signs = dict(zip(marks, MARK_SIGNS, strict=False))
    rows = []
    for row in sheet.rows:
        rows.append([row.name + "".join(signs[mark] for mark in row.marks), *row.cells])
    best = next((n for n, row in enumerate(sheet.rows) if row.best), None)
    caption = ", ".join(f"{sign} {mark}" for mark, sign in signs.items())
    return TextTable(sheet.title, sheet.heads, rows, words=2, caption=caption, narrow=True, bold=best)
