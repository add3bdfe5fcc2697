"""`freshkeeper analyse`."""

from pathlib import Path
from typing import Annotated, Any

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.options import assignments
from freshkeeper.commands.screen import TextTable, number, print_json, say, show
from freshkeeper.maintenance.base.errors import ConfigError

COLUMNS = {
    "setting": "setting", "policy": "policy", "freshness": "freshness", "± 95 %": "ci95", "basis": "basis",
    "pooled": "pooled", "in target": "within_target",
}  # fmt: skip
"""The printed columns of a freshness; the shares of wasted refreshes and missed stale answers follow."""
SHARES = {"wasted": "wasted_share", "missed": "share_of_stale"}


def analyse(
    run: Annotated[str, Argument(help="a run directory or a journal; on a cluster also hdfs://, s3a:// ...")],
    out: Annotated[str, Option(help="the directory for the analysis; default: analysis in the run")] = "",
    target: Annotated[float, Option(help="the freshness that evaluations should have")] = 0.95,
    top: Annotated[int, Option(min=1, help="the number of most stale entries to list")] = 20,
    engine: Annotated[
        str,
        Option(help="auto, duckdb or spark; auto: duckdb in this process for small data or without Java, else spark"),
    ] = "auto",
    master: Annotated[str, Option(help="the Spark master")] = "local[*]",
    change: Annotated[list[str] | None, Option("--set", metavar="spark.KEY=VALUE", help="any setting of Spark")] = None,
    daily: Annotated[
        bool,
        Option("--daily", help="analyse each day (UTC) separately, only days with new parts; written to RUN/daily"),
    ] = False,
    headline: Annotated[
        bool, Option("--headline", help="compute freshness only, several times faster; writes nothing")
    ] = False,
    as_json: Annotated[
        bool, Option("--json", help="print analysis.json as one line of JSON; with --daily by date")
    ] = False,
) -> None:
    """Judge every answer of a run by the truth: freshness, staleness, wasted and missed refreshes.

    Examples: `freshkeeper analyse runs/mine --target .9`, `freshkeeper analyse runs/mine --headline`,
    `freshkeeper analyse hdfs:///journals/today --master yarn --set spark.driver.memory=4g`
    """
    from freshkeeper.maintenance.analysis.analysis import analyse as analysis
    from freshkeeper.maintenance.analysis.analysis import headline_alone
    from freshkeeper.maintenance.analysis.daily import analyse_daily
    from freshkeeper.maintenance.analysis.engine_choice import chosen

    if headline and (daily or out):
        raise ConfigError(f"--headline writes nothing: leave out {'--daily' if daily else '--out'}")
    settings = _settings(change)
    if "://" not in run and not Path(run).is_dir():  # said before Spark is started, where that can be seen from here
        raise ConfigError(f"there is no directory {run}: name a run directory or a journal")
    taken, why = chosen(run, engine, master, settings)
    say(why)
    if daily:
        taken.close()
        days, done = analyse_daily(lambda: chosen(run, engine, master, settings)[0], run, out or None, target, top)
        say(f"analysed: {', '.join(done) or 'nothing'}; as they were: {len(days.keys() - set(done))} days")
    elif headline:
        days = {"": headline_alone(taken, run, target)}
    else:
        days = {"": analysis(taken, run, out or None, target, top)}
    if as_json:
        print_json(days if daily else days[""])
        return
    for day, found in days.items():
        _print_day(found, day, target)
    if not headline:
        say(f"analysis: {out or run + ('/daily' if daily else '/analysis')}")


def _print_day(found: dict[str, Any], day: str, target: float) -> None:
    shares = {
        (name, row["setting"], row["policy"]): row[column]
        for name, column in SHARES.items()
        for row in found.get(name, ())
    }
    alike: dict[tuple[str | None, str | None], list[dict[str, str]]] = {}  # no table mixes cases or knowledge
    for row in found["freshness"]:
        told = {head: row[column] for head, column in COLUMNS.items()}
        told |= {name: shares.get((name, row["setting"], row["policy"])) for name in SHARES}
        cells = {head: _cell(value) for head, value in told.items()}
        alike.setdefault((row["case"], row["knowledge"]), []).append(cells)
    for (case, knowledge), rows in alike.items():
        title = f"{day or 'Freshness'}, case {case or 'unknown'}, knowledge {knowledge or 'unknown'}"
        filled = {head for cells in rows for head, cell in cells.items() if cell}
        heads = [head for head in rows[0] if head in ("setting", "policy") or head in filled]
        lines = []
        for cells in rows:
            lines.append([cells[head] for head in heads])
        show(TextTable(f"{title}; in target: evaluations with {target:g} or more", heads, lines, words=2))
    for note in found["cannot_tell"]:
        say(f"{day}: {note}" if day else note)


def _cell(value: str | float | None) -> str:
    return value if isinstance(value, str) else number(value)


def _settings(written: list[str] | None) -> dict[str, str]:
    found = assignments(written)
    for key in found:
        if not key.startswith("spark."):
            raise ConfigError(f"--set {key}: settings of Spark begin with spark., as in spark.driver.memory=4g")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()}
