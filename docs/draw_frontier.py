"""Draw docs/frontier.svg, the picture of README, from a real answer of `freshkeeper budget`.

`python docs/draw_frontier.py docs/frontier.svg` draws a shop: 120 products, each asked for every three to fifteen
seconds and made of 120 rows, some of which change every ten seconds and some every five minutes.
"""

import sys
from pathlib import Path

from freshkeeper.maintenance.pages.pictures import picture, with_own_colours
from freshkeeper.simulator.budget.answer import BudgetAnswer, answer
from freshkeeper.simulator.budget.budget_page import figure
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.words import lead
from freshkeeper.simulator.experiment.experiment_config import resolve

SHOP = {
    "workload": {"sns": 120, "srs": 120, "edges": 180, "change_law": "poisson", "change_interval_ms": [10_000, 300_000],
                 "arrival_interval_ms": [3000, 15_000]},
    "evaluations": 300, "window": 4000, "step": 1000, "knowledge": "learned", "start": "cold", "seeds": 2,
    "policies": "plan",
}  # fmt: skip
TARGET, PRICE = 0.95, 0.0004


def answered() -> BudgetAnswer:
    """What 95 % of the shop's answers fresh needs."""
    return answer(Question(resolve(SHOP), TARGET, PRICE), jobs=2)


if __name__ == "__main__":
    found = answered()
    Path(sys.argv[1]).write_text(with_own_colours(picture(figure(found), "").svg), "utf-8")
    print(lead(found))
