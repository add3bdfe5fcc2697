"""The figures of a group, each made of a table of the analysis, with a sentence that says the same.

Over time there are freshness and 002's Figure 4, accumulated stale answers and budget spent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan

from freshkeeper.maintenance.analysis.analysis_tables import DATES_FROM_MS
from freshkeeper.maintenance.analysis.analysis_tables import Row as AnalysisRow
from freshkeeper.maintenance.pages.amounts import amount, duration, duration_axis, percent
from freshkeeper.maintenance.pages.charts import COUNT, PERCENT, Axis, AxisKind, Chart, ChartForm, Interval
from freshkeeper.maintenance.pages.figures import ChartTable, Figure, Row, figure, interval
from freshkeeper.simulator.report.groups import TTL, Group
from freshkeeper.simulator.report.panels import share_columns

MARKS = 5
"""of a line over time"""
MOST_ENTRIES = 12
VISIBLE = 0.01
"""A share below which shorter times are left out of a figure."""
NETWORK_MS = 1.0
"""A fetch that takes less went over no network, and says nothing about latency."""
TENTHS = [str(tenth) for tenth in range(1, 11)]
COLOUR_OF_OUTCOME = {
    "found a change": "green",
    "found nothing new": "grey",
    "fetched what was missing": "sky",
    "failed": "vermilion",
}


@dataclass(frozen=True, kw_only=True)
class OverTime:
    """A column of the table `timeline` as a figure."""

    column: str
    key: str
    title: str
    y: Axis
    caption: str
    """what is to be seen, where there is a warm-up and where there is none"""
    caption_without_warmup: str
    from_zero: bool = True
    highest: float = inf
    text: Callable[[float], str] = amount


FRESHNESS = OverTime(
    column="freshness", key="over-time", title="Freshness over time", y=Axis("of answers fresh", PERCENT),
    caption="The shaded warm-up does not count.", caption_without_warmup="Every evaluation counts.",
    from_zero=False, highest=1.0, text=percent,
)  # fmt: skip
STALE = OverTime(
    column="stale", key="stale", title="Accumulated stale answers", y=Axis("stale answers", COUNT),
    caption="From the end of the warm-up on: flatter is better.",
    caption_without_warmup="From the first evaluation on: flatter is better.",
)  # fmt: skip
SPENT = OverTime(
    column="spent", key="spent", title="Budget spent per evaluation", y=Axis("cost units", ",~r"),
    caption="The dotted line is γ, what each evaluation is paid; the warm-up is shaded.",
    caption_without_warmup="The dotted line is γ, what each evaluation is paid.",
)  # fmt: skip


@dataclass(frozen=True)
class Times:
    """A row of a table of quantiles, found by one of its columns."""

    table: str
    column: str
    value: str


@dataclass(frozen=True, kw_only=True)
class ByTenth:
    """A table of the analysis by tenths of the entries as a figure."""

    table: str
    measure: str
    unit: str
    x: str
    caption: str


BY_CHANGE_RATE = ByTenth(
    table="by_change_rate", measure="change", unit="changes", x="tenth of the entries, by how often they change",
    caption="10 are those that change most often.",
)  # fmt: skip
BY_DEGREE = ByTenth(
    table="by_degree", measure="degree", unit="keys", x="tenth of the entries, by how many keys need them",
    caption="10 are those that most keys need.",
)  # fmt: skip


def figures_of_settings(group: Group) -> list[Figure]:
    """Return the figures that show one setting at a time, without those for which nothing is known."""
    made = [
        _by_policy(group),
        over_time(group, FRESHNESS),
        over_time(group, STALE),
        over_time(group, SPENT),
        _times(group, Times("staleness_quantiles", "what", "age"), "Age of the copies of stale answers",
               "Time since the copy was fetched"),
        _times(group, Times("staleness_quantiles", "what", "overdue"), "How long they had been stale",
               "Time since the value changed"),
        _times(group, Times("latency", "part", "decide"), "Time to decide", "Wall clock per evaluation"),
        _times(group, Times("latency", "part", "fetch"), "Time to fetch", "Per evaluation"),
    ]  # fmt: skip
    return [figure for figure in made if figure.views]


def figures_by_answer(group: Group) -> list[Figure]:
    """Return the figures that tell answers and refreshes apart."""
    made = [
        _calibration(group),
        _stale_for(group),
        _by_tenth(group, BY_CHANGE_RATE),
        _by_tenth(group, BY_DEGREE),
        _stalest(group),
        _requests(group),
    ]  # fmt: skip
    return [figure for figure in made if figure.views]


def over_time(group: Group, measure: OverTime) -> Figure:
    """Return one measure over the evaluations of each setting."""
    found = {setting: _timeline(group, setting, measure) for setting in group.settings}
    rows = [row for table in found.values() for row in table.rows]
    x = Axis("evaluation")
    if rows and rows[0]["x"] >= DATES_FROM_MS:
        x = Axis("time (UTC)", kind=AxisKind.DATES)
    chart = Chart(
        form=ChartForm.LINES,
        x=x,
        y=measure.y,
        interval=Interval.BAND,
        marks=MARKS,
        from_zero=measure.from_zero,
        highest=measure.highest,
    )
    caption = _caption(group, measure, found)
    chart, wide = interval(chart, rows), measure is FRESHNESS
    return figure(
        measure.key, measure.title, chart, found, group.styles, caption=caption, chooser=group.chooser, wide=wide
    )


def _timeline(group: Group, setting: str, measure: OverTime) -> ChartTable:
    rows: list[Row] = []
    ends = {}
    for policy in group.compared(setting):
        line = _known_part(group.run.analysis.rows("timeline", setting, policy), measure.column)
        rows += [_point(policy, row, measure) for row in line]
        if line:
            ends[policy] = line[-1][measure.column]
    words = "; ".join(f"{policy} {measure.text(end)}" for policy, end in ends.items())
    words = f"{measure.title}. At the end: {words}."
    return ChartTable(rows, words, _rules(group, setting, measure), _warmup(group, setting, measure, rows))


def _known_part(line: Sequence[AnalysisRow], column: str) -> Sequence[AnalysisRow]:
    """Return a line from its first to its last point that is known."""
    known = [place for place, row in enumerate(line) if row[column] is not None]
    if not known:
        return []
    return line[known[0] : known[-1] + 1]


def _point(policy: str, row: AnalysisRow, measure: OverTime) -> Row:
    mid, half = row[measure.column], row.get(f"{measure.column}_ci95")
    point = {"policy": policy, "x": row["x"], "mid": mid}
    if mid is None or half is None:
        return point
    return point | {"low": max(mid - half, 0.0), "high": min(mid + half, measure.highest)}


def _rules(group: Group, setting: str, measure: OverTime) -> dict[str, float]:
    budget, target = group.run.setting(setting).budget, group.configured_target
    if measure is SPENT and budget is not None:
        return {f"γ = {amount(budget)}": budget}
    if measure is FRESHNESS and target is not None:
        return {f"target {percent(target, 0)}": target}
    return {}


def _warmup(group: Group, setting: str, measure: OverTime, rows: Sequence[Row]) -> tuple[float, float] | None:
    if measure is STALE or not rows:
        return None
    first = min(row["x"] for row in rows)
    ends = group.run.analysis.rows("timeline", setting, rows[0]["policy"])[0]["warmup_ends"]
    if ends is None or ends <= first:
        return None
    return first, ends


def _caption(group: Group, measure: OverTime, tables: Mapping[str, ChartTable]) -> str:
    lines = [row for pair in group.scores for row in group.run.analysis.rows("timeline", *pair)]
    sentences = [measure.caption_without_warmup]
    if any(row["warmup_ends"] is not None for row in lines):
        sentences = [measure.caption]
    if group.seeds.size > 1 and measure is SPENT:
        sentences.append(f"Means over {group.seeds.size} seeds.")
    elif group.seeds.size > 1:
        sentences.append(f"Means over {group.seeds.size} seeds, with 95 % bands.")
    if measure is FRESHNESS and any(table.rules for table in tables.values()):
        sentences.append("The dotted line is the target.")
    evaluations = max((row["evaluations"] for row in lines), default=1)
    if evaluations > 1 and measure is not STALE:
        sentences.append(f"Each point is the mean of up to {evaluations} evaluations.")
    return " ".join(sentences)


def _by_policy(group: Group) -> Figure:
    title = "Freshness by policy"
    chart = Chart(form=ChartForm.DOTS, x=Axis("of answers fresh", PERCENT))
    several = any(len(group.with_bound(setting)) > 1 for setting in group.settings)

    def table(setting: str) -> ChartTable | None:
        labels = [policy for policy in group.with_references(setting) if not group.is_unlimited(policy)]
        if not several:
            return None
        shares = {policy: group.headline(setting, policy) for policy in labels}
        rows = [{"policy": policy, **share_columns(share)} for policy, share in shares.items() if not isnan(share.mean)]
        return ChartTable(rows, _words(title, rows))

    caption = "All fresh answers over all answers" if group.pooled else "Mean over the evaluations that count"
    if group.seeds.size > 1:
        caption += "; bars are 95 % intervals over seeds"
    if TTL in group.styles:
        caption += "; ttl is a TTL cache that makes as many requests"
    return figure("freshness", title, chart, _of_settings(group, table), group.styles,
                  caption=f"{caption}.", chooser=group.chooser)  # fmt: skip


def _times(group: Group, times: Times, title: str, caption: str) -> Figure:
    """Return a figure of medians and 95th percentiles, in a unit that fits the longest of them."""
    pairs = [(setting, policy) for setting in group.settings for policy in group.compared(setting, bounds=False)]
    quantiles = {
        pair: row
        for pair in pairs
        for row in group.run.analysis.rows(times.table, *pair)
        if row[times.column] == times.value and not (times.value == "fetch" and row["median_ms"] < NETWORK_MS)
    }
    unit, size = duration_axis(max((row["p95_ms"] for row in quantiles.values()), default=1.0))
    x = Axis(unit)
    if times.table == "latency" and all(row["median_ms"] > 0 for row in quantiles.values()):
        x = Axis(unit, kind=AxisKind.LOGARITHMS)

    def table(setting: str) -> ChartTable:
        rows = [_spread(policy, row, size) for (name, policy), row in quantiles.items() if name == setting]
        return ChartTable(rows, _words(title, rows))

    caption = f"{caption}: the median, and a bar to the 95th percentile."
    chart = Chart(form=ChartForm.DOTS, x=x)
    return figure(times.value, title, chart, _of_settings(group, table), group.styles,
                  caption=caption, chooser=group.chooser)  # fmt: skip


def _spread(policy: str, row: AnalysisRow, size: float) -> Row:
    median, high = row["median_ms"] / size, row["p95_ms"] / size
    text = f"{duration(row['median_ms'])} – {duration(row['p95_ms'])}"
    return {"policy": policy, "mid": median, "low": median, "high": high, "text": text}


def _words(title: str, rows: Sequence[Row]) -> str:
    parts = [f"{row['policy']} {row['text']}" for row in rows]
    return f"{title}: {'; '.join(parts)}."


def _of_settings(group: Group, table: Callable[[str], ChartTable | None]) -> dict[str, ChartTable | None]:
    return {setting: table(setting) for setting in group.settings}


def _calibration(group: Group) -> Figure:
    chart = Chart(
        form=ChartForm.LINES,
        x=Axis("believed fresh", PERCENT),
        y=Axis("found fresh", PERCENT),
        highest=1.0,
        diagonal=True,
    )

    def table(setting: str) -> ChartTable:
        rows: list[Row] = []
        sentences = []
        for policy, tenths in _rows_by_policy(group, setting, "calibration"):
            best = _best_basis(tenths)
            rows += [_tenth_found(policy, row) for row in best]
            if best:
                sentences.append(f"{policy}: {_bias(best)}")
        return ChartTable(rows, f"Believed against found freshness. {'; '.join(sentences)}.")

    caption = "By tenths of what was believed. Below the dotted line the engine is too sure."
    return figure("calibration", "Believed and found freshness", chart, _of_settings(group, table), group.styles,
                  caption=caption, chooser=group.chooser)  # fmt: skip


def _best_basis(rows: Sequence[AnalysisRow]) -> list[AnalysisRow]:
    """Return the rows that are known best: by the truth, else by audits, else as reported."""
    for basis in ("truth", "audited", "reported"):
        found = [row for row in rows if row["basis"] == basis and row["freshness"] is not None]
        if found:
            return sorted(found, key=lambda row: float(row["expected"]))
    return []


def _tenth_found(policy: str, row: AnalysisRow) -> Row:
    text = f"{percent(row['freshness'])} of {amount(row['answers'])} answers ({row['basis']})"
    return {"policy": policy, "x": row["expected"], "mid": row["freshness"], "text": text}


def _bias(rows: Sequence[AnalysisRow]) -> str:
    weight = sum(row["answers"] for row in rows)
    bias = sum(row["answers"] * (row["expected"] - row["freshness"]) for row in rows)
    points = 100 * bias / max(weight, 1)
    if abs(points) < 0.05:
        return "what was believed was found, within 0.05 points"
    if points > 0:
        return f"believed {points:.1f} points more than was found"
    return f"believed {-points:.1f} points less than was found"


def _stale_for(group: Group) -> Figure:
    """Return how the time is spread for which stale answers had been stale."""
    pairs = [(setting, policy) for setting in group.settings for policy in group.compared(setting, bounds=False)]
    rows = [row for pair in pairs for row in _overdue(group, *pair)]
    first = min((row["below_ms"] for row in rows if row["share"] >= VISIBLE), default=0)
    every_end = sorted({row["below_ms"] for row in rows})
    ends = [duration(end) for end in every_end if end >= first]

    def table(setting: str) -> ChartTable | None:
        shares, sentences = {}, []
        for policy in group.compared(setting, bounds=False):
            own = _overdue(group, setting, policy)
            if own:
                shares[policy] = {duration(row["below_ms"]): (row["share"], amount(row["answers"])) for row in own}
            for row in group.run.analysis.rows("staleness_quantiles", setting, policy):
                if row["what"] == "overdue":
                    median = duration(row["median_ms"])
                    sentences.append(f"{policy}: half of its stale answers for {median} or less")
        words = f"For how long stale answers had been stale. {'; '.join(sentences)}."
        return ChartTable(_shares_along(shares, ends), words)

    title, caption = "For how long stale answers had been stale", "Time since the change, in doubling steps."
    return _along(group, "stale-for", title, Axis("up to", order=ends), table=table, caption=caption)


def _overdue(group: Group, setting: str, policy: str) -> list[AnalysisRow]:
    return [row for row in group.run.analysis.rows("staleness", setting, policy) if row["what"] == "overdue"]


def _by_tenth(group: Group, by: ByTenth) -> Figure:
    """Return which tenths of the entries stale answers come from."""

    def table(setting: str) -> ChartTable:
        shares, sentences = {}, []
        for policy, rows in _rows_by_policy(group, setting, by.table):
            stale = sum(row["stale"] for row in rows)
            if not stale:
                continue
            shares[policy] = {
                str(row["decile"]): (row["stale"] / stale, f"{row['least']} to {row['most']} {by.unit}") for row in rows
            }
            top = max(rows, key=lambda row: int(row["decile"]))
            share = percent(top["stale"] / stale, 0)
            sentences.append(f"{share} of {policy}'s from those with {top['least']} to {top['most']} {by.unit}")
        words = f"Where stale answers come from, by tenths of the entries: {'; '.join(sentences)}."
        return ChartTable(_shares_along(shares, TENTHS), words)

    title, key = f"Where stale answers come from: {by.measure}", by.table.replace("_", "-")
    return _along(group, key, title, Axis(by.x, order=TENTHS), table=table, caption=by.caption)


def _along(
    group: Group, key: str, title: str, x: Axis, table: Callable[[str], ChartTable | None], caption: str
) -> Figure:
    """Return shares of the stale answers along words that have an order."""
    across = Axis(x.title, kind=AxisKind.WORDS, order=x.order)
    chart = Chart(form=ChartForm.LINES, x=across, y=Axis("of stale answers", PERCENT), from_zero=True, highest=1.0)
    tables = {setting: table(setting) for setting in group.settings}
    return figure(key, title, chart, tables, group.styles, caption=caption, chooser=group.chooser)


def _shares_along(shares: Mapping[str, Mapping[str, tuple[float, str]]], order: Sequence[str]) -> list[Row]:
    """Return rows for every policy and word; a word that a policy lacks has a share of zero."""
    rows = []
    for policy, by_word in shares.items():
        for word in order:
            share, text = by_word.get(word, (0.0, "none"))
            rows.append({"policy": policy, "x": word, "mid": share, "text": f"{percent(share)}: {text}"})
    return rows


def _stalest(group: Group) -> Figure:
    """Return the stalest entries of the best policy, which in production is the only one."""
    chart = Chart(form=ChartForm.BARS, x=Axis("of all stale answers", PERCENT))

    def table(setting: str) -> ChartTable | None:
        policy = next(iter(group.compared(setting, bounds=False)), "")
        entries = group.run.analysis.rows("top_stale", setting, policy)[:MOST_ENTRIES]
        if not entries:
            return None
        several = len({row["seed"] for row in entries}) > 1
        rows = [
            {
                "policy": f"{row['sr']} (seed {row['seed']})" if several else row["sr"],
                "mid": row["share_of_stale"],
                "text": f"{amount(row['stale'])} of {amount(row['answers'])}",
                "paint": group.styles[policy].paint,
            }
            for row in entries
        ]
        together = percent(sum(row["share_of_stale"] for row in entries), 0)
        leader = rows[0]["policy"]
        words = f"The {len(rows)} stalest entries of {policy} make {together} of its stale answers; {leader} leads."
        return ChartTable(rows, words)

    tables = {setting: table(setting) for setting in group.settings}
    return figure("stalest", "The stalest entries", chart, tables, group.styles, chooser=group.chooser)


def _requests(group: Group) -> Figure:
    chart = Chart(form=ChartForm.BARS, x=Axis("of requests", PERCENT), colour_of_part=COLOUR_OF_OUTCOME)

    def table(setting: str) -> ChartTable:
        rows: list[Row] = []
        sentences = []
        for policy, summed in _rows_by_policy(group, setting, "wasted"):
            for outcomes, requests in _outcomes(summed):
                rows += [
                    {"policy": policy, "part": part, "mid": number / requests, "rank": rank,
                     "text": f"{amount(number)} of {amount(requests)}"}
                    for rank, (part, number) in enumerate(outcomes.items())
                ]  # fmt: skip
                useful, wasted = (percent(outcomes[part] / requests, 0) for part in list(COLOUR_OF_OUTCOME)[:2])
                sentences.append(f"{useful} of {policy}'s found a change, {wasted} nothing new")
        return ChartTable(rows, f"What the requests brought: {'; '.join(sentences)}.")

    return figure("requests", "What the requests brought", chart, _of_settings(group, table), group.styles,
                  chooser=group.chooser)  # fmt: skip


def _outcomes(rows: Sequence[AnalysisRow]) -> Iterator[tuple[dict[str, float], float]]:
    """Yield how many refreshes came to what, by the truth or else as the engine saw it, and how many there were."""
    for row in rows:
        wasted = row["wasted"]
        if wasted is None:
            wasted = row["wasted_as_reported"]
        if wasted is None or not row["refreshes"]:
            continue
        useful = row["refreshes"] - row["failed"] - row["misses"] - wasted
        numbers = (useful, wasted, row["misses"], row["failed"])
        yield dict(zip(COLOUR_OF_OUTCOME, numbers, strict=True)), row["refreshes"]


def _rows_by_policy(group: Group, setting: str, name: str) -> Iterator[tuple[str, list[AnalysisRow]]]:
    """Yield the rows of one table for each policy that is no bound and has some."""
    for policy in group.compared(setting, bounds=False):
        rows = group.run.analysis.rows(name, setting, policy)
        if rows:
            yield policy, rows
