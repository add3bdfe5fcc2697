"""Draw docs/frontier.svg, the picture of README, from a real answer of `freshkeeper budget`.

`python docs/draw_frontier.py docs/frontier.svg` draws a trace of a shop: 300 products asked for some 24,000 times in
ten minutes, some of which change every 20 seconds and some every quarter of an hour.
"""

import sys
from pathlib import Path

from freshkeeper.simulator.budget.answer import Answer, answer
from freshkeeper.simulator.budget.page import figure
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.words import lead
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.report.page import picture, with_own_colours

SHOP = {
    "workload": {"sns": 300, "srs": 300, "edges": 450, "change_law": "poisson", "change_interval_ms": [20_000, 900_000],
                 "arrival_interval_ms": [3000, 15_000]},
    "evaluations": 600, "window": 4000, "step": 1000, "knowledge": "learned", "start": "cold", "seeds": 3,
    "policies": "lru,plan",
}  # fmt: skip
TARGET, PRICE = 0.95, 0.0004


def answered() -> Answer:
    """What 95 % of the shop's answers fresh needs."""
    return answer(Question(resolve(SHOP), TARGET, PRICE), jobs=2)


if __name__ == "__main__":
    found = answered()
    Path(sys.argv[1]).write_text(with_own_colours(picture(figure(found), "").svg), "utf-8")
    print(lead(found))
