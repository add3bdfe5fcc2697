"""`freshkeeper analyse`."""

from typing import Annotated, Any

import typer

from freshkeeper.options import assignments
from freshkeeper.screen import print_json, say, show, table
from policies.errors import ConfigError

COLUMNS = ["setting", "policy", "case", "knowledge", "freshness", "± 95 %", "pooled", "in target", "wasted", "missed"]


def analyse(
    run: Annotated[str, typer.Argument(help="a run directory or a journal; on a cluster also hdfs://, s3a:// ...")],
    out: Annotated[str, typer.Option(help="the directory to write; default: analysis in the run")] = "",
    target: Annotated[float, typer.Option(help="the freshness that evaluations should have")] = 0.95,
    top: Annotated[int, typer.Option(min=1, help="how many of the most stale entries to name")] = 20,
    master: Annotated[str, typer.Option(help="where Spark runs")] = "local[*]",
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="spark.KEY=VALUE", help="any setting of Spark")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print analysis.json as one line")] = False,
) -> None:
    """Judge every answer of a run by the truth, on Spark: freshness, staleness, wasted and missed refreshes.

    Example: `freshkeeper analyse runs/mine --target .9 --set spark.driver.memory=4g`
    """
    from maintenance.pipeline.session import spark_session

    spark = spark_session(master, _settings(change))
    from maintenance.pipeline.analysis import analyse as analysis

    found = analysis(spark, run, out or None, target, top)
    if as_json:
        print_json(found)
        return
    title = f"Freshness by the truth; in target: evaluations with {target:g} or more"
    show(table(title, COLUMNS, _rows(found), words=4))
    for note in found["cannot_tell"]:
        say(note)
    say(f"analysis: {out or f'{run}/analysis'}")


def _settings(written: list[str] | None) -> dict[str, str]:
    found = assignments(written)
    for key in found:
        if not key.startswith("spark."):
            raise ConfigError(f"--set {key}: settings of Spark begin with spark., as in spark.driver.memory=4g")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()}


def _rows(found: dict[str, Any]) -> list[list[str]]:
    """The headline, with the shares of wasted refreshes and of stale answers that a missed refresh would have saved."""
    shares = {
        (name, row["setting"], row["policy"]): row[column]
        for name, column in (("wasted", "wasted_share"), ("missed", "share_of_stale"))
        for row in found.get(name, [])
    }
    return [
        [
            *(row[word] for word in ("setting", "policy", "case", "knowledge")),
            *(_number(row[name]) for name in ("freshness", "ci95", "pooled", "within_target")),
            *(_number(shares.get((name, row["setting"], row["policy"]))) for name in ("wasted", "missed")),
        ]
        for row in found["freshness"]
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
