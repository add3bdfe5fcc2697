"""Check whether answers are fresh enough: an exit code and a line per policy, for cron and its readers.

The mean decides, as every table shows it, and not the lower end of its interval: a short run would otherwise raise the
alarm for being short, and a production journal is one run, which has no interval over seeds at all. Where a threshold
lies within the interval the line says so. Where nobody knows the truth, audits decide as soon as there are enough.
Bounds are never checked. Of several policies and settings the worst decides: an error before what cannot be told, and
that before a warning. Whatever keeps us from an answer, a directory that is not there or a threshold that makes no
sense, is a 3 and not an exception: a check that crashes looks like a bad answer.
"""

from enum import IntEnum
from math import isnan
from pathlib import Path

import numpy as np

from freshkeeper.maintenance.analysis.analysis_tables import DATES_FROM_MS, NOTHING_ANSWERED, Row
from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError, nearest
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.baselines import MARK
from freshkeeper.simulator.experiment.run_directory import Run
from freshkeeper.simulator.experiment.scores import Score, scores


class Verdict(IntEnum):
    """Exit codes of a check."""

    OK = 0
    WARN = 1
    ERROR = 2
    UNKNOWN = 3


MIN_AUDITS = 30
"""The number of audits needed for a verdict."""
GRAVITY = (Verdict.OK, Verdict.WARN, Verdict.UNKNOWN, Verdict.ERROR)


def check(
    run: Path, warn: float = 0.95, error: float = 0.90, policy: str | None = None, last: int | None = None
) -> tuple[int, list[str]]:
    """Return exit code and lines; `policy` checks one policy alone, `last` the last evaluations of each run."""
    try:
        if not 0 <= error <= warn <= 1:
            said = f"the thresholds are warn {warn:g} and error {error:g}"
            raise ConfigError(f"{said}; right would be 0 ≤ error ≤ warn ≤ 1")
        if last is not None and last < 1:
            raise ConfigError(f"the last {last} evaluations cannot be checked; right would be 1 or more")
        read = run_directory.read(run, last=last)
        found = [_judged(read, score, warn, error) for score in _checked(read, policy)]
    except FreshkeeperError as problem:
        return int(Verdict.UNKNOWN), [f"UNKNOWN: {problem}"]
    found.sort(key=lambda each: (-GRAVITY.index(each[0]), each[1]))
    return int(found[0][0]), [line for _, _, line in found]


def _judged(run: Run, score: Score, warn: float, error: float) -> tuple[Verdict, float, str]:
    """Return verdict, freshness and line of one policy."""
    freshness = _deciding(score)
    verdict = Verdict.OK
    if isnan(freshness):
        verdict = Verdict.UNKNOWN
    elif freshness < error:
        verdict = Verdict.ERROR
    elif freshness < warn:
        verdict = Verdict.WARN
    return verdict, freshness, _line(run, verdict, score, warn, error)


def _deciding(score: Score) -> float:
    """Return the freshness that decides: few audits say less than what the engine expected."""
    if score.basis == "audited" and not _enough_audits(score):
        return score.believed
    return score.freshness.mean


def _enough_audits(score: Score) -> bool:
    return score.audits is not None and score.audits["audits"] >= MIN_AUDITS


def _checked(run: Run, policy: str | None) -> list[Score]:
    """Return the scores to check: of one policy, or of all that are no bounds."""
    every = scores(run)
    if policy:
        chosen = [score for score in every if score.series.policy == policy]
        if not chosen:
            known = list(dict.fromkeys(score.series.policy for score in every))
            raise ConfigError(f"{run.path} has no policy {policy!r}; {nearest(policy, known)}")
        return chosen
    chosen = [score for score in every if not run.contender(score.series.policy).is_bound]
    if not chosen:
        raise ConfigError(f"{run.path} has bounds alone, which are not checked unless they are named")
    return chosen


def _line(run: Run, verdict: Verdict, score: Score, warn: float, error: float) -> str:
    series = score.series
    settings = {row["setting"] for row in run.analysis.tables["budget"]}
    name = series.policy + (f" ({series.setting})" if len(settings) > 1 else "")
    if verdict is Verdict.UNKNOWN:
        return f"UNKNOWN: {name}: {NOTHING_ANSWERED[0].lower()}{NOTHING_ANSWERED[1:]}"
    fresh = "expected fresh" if score.basis in ("expected", "audited") else "fresh"
    parts = [f"{_percent(score.believed)} of the answers {fresh}"]
    if score.audits is not None:
        # What decides the verdict comes first: audits if there are enough of them.
        parts.insert(0 if _enough_audits(score) else 1, _audited(score.audits, warn, error))
    parts += [
        _interval(score, warn, error),
        f"{score.evaluations:,} evaluations",
        f"warn below {_percent(warn)}, error below {_percent(error)}",
    ]
    if score.failed > 0:
        parts.append(f"{score.failed:,.0f} fetches failed")
    parts += [_marked(run, score), _newest(score)]
    return f"{verdict.name}: {name}: {'; '.join(part for part in parts if part)}"


def _marked(run: Run, score: Score) -> str:
    if not run.contender(score.series.policy).budgeted:
        return MARK
    return "over budget" if score.over_budget else ""


def _audited(audits: Row, warn: float, error: float) -> str:
    low, high = audits["low"], audits["high"]
    between = f"{_percent(low)} to {_percent(high)}"
    told = f"{_percent(audits['freshness'])} of {audits['audits']:,} audited answers fresh ({between})"
    return told + _doubt(low, high, warn, error)


def _interval(score: Score, warn: float, error: float) -> str:
    found = score.freshness
    if isnan(found.half):
        return ""
    return f"+/- {100 * found.half:.2f} over {found.seeds} seeds" + _doubt(found.low, found.high, warn, error)


def _doubt(low: float, high: float, warn: float, error: float) -> str:
    within = [_percent(at) for at in (warn, error) if low <= at <= high]
    return f", which may be on either side of {' and '.join(within)}" if within else ""


def _newest(score: Score) -> str:
    """Say when the last evaluation was: a journal that stopped growing stays as fresh as it was."""
    if not score.last_ms >= DATES_FROM_MS:
        return ""
    return f"last evaluation {np.datetime64(int(score.last_ms), 'ms')} UTC"


def _percent(share: float) -> str:
    """Format a share in ASCII, for mails and logs."""
    return f"{100 * share:.2f}%"
