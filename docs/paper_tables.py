"""Prints the tables of docs/paper.md from run directories: `python docs/paper_tables.py runs/fig2a runs/fig2b ...`."""

import csv
import sys
from pathlib import Path

Row = dict[str, str]


def table(run: Path) -> str:
    """One Markdown table: settings down, policies across, freshness in percent; over-budget marked with an asterisk."""
    with (run / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    found = {(row["setting"], row["policy"]): row for row in rows}
    head = ["setting", *policies, "bound"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for setting in settings:
        cells = [_cell(found.get((setting, policy))) for policy in policies]
        lines.append("| " + " | ".join([setting, *cells, _bound(rows, setting)]) + " |")
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None or not row["freshness"]:
        return ""
    spent = f"* ({float(row['requests_per_evaluation']):.1f})" if row["over_budget"] == "true" else ""
    return f"{100 * float(row['freshness']):.1f}{spent}"


def _bound(rows: list[Row], setting: str) -> str:
    for row in rows:
        if row["setting"] == setting and row["share_of_bound"] and float(row["share_of_bound"]) > 0:
            return f"{100 * float(row['freshness']) / float(row['share_of_bound']):.1f}"
    return ""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"<!-- {Path(name).name} -->\n{table(Path(name))}\n")
