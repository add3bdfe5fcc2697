"""Draw docs/frontier.svg, the picture of README, from a real answer of `freshkeeper budget`.

`python docs/draw_frontier.py docs/frontier.svg` draws a shop: a day with 40,000 reads of 1,500 products, a few of which
are read most, and whose prices change every six hours on average, some every few minutes and some never.
"""

import random
import sys
from pathlib import Path

from freshkeeper.maintenance.pages.pictures import picture, with_own_colours
from freshkeeper.simulator.budget.budget_page import figure
from freshkeeper.simulator.budget.log_answer import LogQuestion, answer_log
from freshkeeper.simulator.budget.read_log import ReadLog
from freshkeeper.simulator.budget.sheet import Sheet

PRODUCTS, READS = 1500, 40_000
DAY_MS, CHANGE_INTERVAL_MS = 86_400_000.0, 21_600_000.0
TARGET, PRICE = 0.95, 0.0004


def shop() -> ReadLog:
    """Draw reads by Zipf's law, and changes at rates that differ by orders of magnitude."""
    rng = random.Random(1)
    products = [f"p{n}" for n in range(PRODUCTS)]
    weights = [1 / (n + 1) for n in range(PRODUCTS)]
    rng.shuffle(weights)
    times = sorted(rng.uniform(0, DAY_MS) for _ in range(READS))
    changes = {}
    for product in products:
        interval, at = CHANGE_INTERVAL_MS / rng.lognormvariate(0, 1.5), 0.0
        history: list[float] = []
        while (at := at + rng.expovariate(1 / interval)) < DAY_MS:
            history.append(at)
        changes[product] = history
    return ReadLog(times, rng.choices(products, weights, k=READS), dict(changes))


def answered() -> Sheet:
    """Find what keeps 95 % of the shop's reads fresh."""
    return answer_log(LogQuestion(shop(), TARGET, PRICE))


if __name__ == "__main__":
    found = answered()
    Path(sys.argv[1]).write_text(with_own_colours(picture(figure(found), "").svg), "utf-8")
    print(found.lead, *found.sentences, found.code, sep="\n")
