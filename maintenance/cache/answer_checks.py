"""The audits of an evaluation: which answers it checks, what the checks say, what a controller is told of it all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.budget.audit import Audit, Auditor, Draws, Sampled, still_fresh
from freshkeeper.maintenance.cache.budget.controller import Observed
from freshkeeper.maintenance.cache.budget.ledger import Ledger
from freshkeeper.maintenance.cache.evaluation import Decision, Join, PreparedRound, Refreshes
from freshkeeper.maintenance.cache.view_writer import ViewWriter
from freshkeeper.maintenance.fetching.endpoint import Copy, Price
from freshkeeper.policies.base import NEVER, Budget


@dataclass(frozen=True, eq=False)
class AnswerChecks:
    """An auditor at work on a view; without one nothing is checked."""

    auditor: Auditor | None
    writer: ViewWriter

    def draw(self, prepared: PreparedRound, budget: Budget, ledger: Ledger, price: Price) -> Draws:
        """Draw the answers that this evaluation checks."""
        if self.auditor is None:
            return Draws()
        view, sns = self.writer.view, prepared.sns
        missed = [view.sns.numbers[sn] for sn in view.misses]
        sampled = Sampled(sns, prepared.counts, view.graph.degrees(sns), np.isin(sns, missed), view.degree)
        return self.auditor.draw(ledger.paid, budget.available, price, sampled, view)

    def judge(self, decision: Decision, refreshes: Refreshes, price: Price) -> list[Audit]:
        """Judge the drawn answers: a copy read at the evaluation is fresh, and a miss that was not fetched has no
        answers.
        """
        if self.auditor is None or not decision.draws.answers:
            return []
        view, extra = self.writer.view, len(refreshes.audited)
        plain = int(np.count_nonzero(refreshes.kinds != Kind.MISS))
        fresh: dict[int, bool | None] = dict.fromkeys(decision.draws.missing, False)
        for slot, copy in refreshes.audited.items():
            fresh[slot] = still_fresh(copy, view.values[slot], int(view.last_refresh[slot]))
        for slot, error, at in zip(refreshes.srs.tolist(), refreshes.errors, refreshes.read_at.tolist(), strict=True):
            if at == decision.now:
                fresh[slot] = True if error is None else fresh.get(slot)
        return self.auditor.judge(decision.draws, fresh, price.of(plain + extra) - price.of(plain), view)

    def keep(self, audited: Mapping[int, Copy], join: Join) -> Join:
        """Put the checked copies into the view; the join keeps the copies that were there before."""
        good = {slot: copy for slot, copy in audited.items() if copy.error is None}
        if not good:
            return join
        values = self.writer.view.values
        join = replace(join, refreshed=join.refreshed.copy(), audited={slot: values[slot] for slot in good})
        self.writer.store(np.array(list(good), np.int32), list(good.values()), join.now)
        return join


@dataclass(frozen=True, eq=False)
class AnswerWeights:
    """Weights of the answers of an evaluation, and how likely each answer and each copy is fresh."""

    weights: Floats
    fresh: Floats
    copies: Floats
    """by slot, as the probability"""


def observed(decision: Decision, refreshes: Refreshes, audits: Sequence[Audit], answers: AnswerWeights) -> Observed:
    """Return what a controller learns from: whether replaced copies, and answers that were checked, were fresh."""
    kept = np.full(answers.copies.size, np.nan)
    had = decision.round.last_refresh != NEVER
    kept[decision.srs[had]] = decision.round.fresh_if_kept[had, 0]
    good = np.array([error is None for error in refreshes.errors], bool) & ~refreshes.late
    good[good] = ~np.isnan(kept[refreshes.srs[good]])
    draws = decision.draws.answers if audits else ()
    believed, verdicts = [], []
    for audit, draw in zip(audits, draws, strict=True):
        if audit.fresh is not None:
            believed.append(float(np.prod(answers.copies[list(draw.srs)])))
            verdicts.append(audit.fresh)
    return Observed(
        weights=answers.weights,
        fresh=answers.fresh,
        replaced=kept[refreshes.srs[good]],
        changed=refreshes.changed[good],
        audited=np.array(believed),
        verdicts=np.array(verdicts, bool),
        spent=refreshes.spent,
    )
