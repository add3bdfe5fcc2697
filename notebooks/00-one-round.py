# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # One round: which copies are worth a request?
#
# At every evaluation a policy is given a round: who needs which cached entry, how often, and how long a new copy of
# it would stay fresh. A TTL cache looks at none of this, only at the age of copies. This notebook shows what that
# costs, first on one round by hand, policy by policy, and in the end as a chart.
#
# Without a run the round is Figure 1 of *Planning Ahead*: three lookup keys in the window, three cached entries, six
# edges, all copies stale and equally old. With `run` it is the evaluation of your run directory or journal that had
# the most stale answers, with its stalest entries.

# %% tags=["parameters"]
run = ""  # a run directory or a journal with answers; default: Figure 1
setting = ""  # of several settings which one; default: the first
requests = 2  # how many requests a policy may send

# %%
from dataclasses import replace
from pathlib import Path

import numpy as np

from freshkeeper import Budget, Case, policy, round_of
from freshkeeper.commands.screen import TextTable
from freshkeeper.notebook import bars, show_sentences, show_table
from freshkeeper.simulator.report.recorded_round import share_fresh, stalest_round

if run:
    recorded = stalest_round(Path(run), setting)
    round, keys, entries = recorded.round, recorded.keys, recorded.entries
else:
    edges = [(0, 0), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]
    counts = [[1, 1], [2, 2], [1, 1]]  # window mappings of each lookup key, now and at the next evaluation
    round, keys = round_of(edges, counts, life=[1, 2, 2]), ["key 0", "key 1", "key 2"]
    entries = ["entry 0", "entry 1", "entry 2"]
show_sentences(
    f"{len(keys)} lookup keys need {len(entries)} entries; {int(round.stale.sum())} of their copies are stale."
)

# %% [markdown]
# Demand is adjacency times profile: in how many answers each entry takes part, now and at the next evaluation. Beside
# it is for how many of these evaluations a new copy would stay fresh.

# %%
lines = []
for number, entry in enumerate(entries):
    now, then = (f"{answers:g}" for answers in round.demand[number])
    lines.append(
        [entry, "stale" if round.stale[number] else "fresh", now, then, f"{round.fresh_if_refreshed[number].sum():g}"]
    )
show_table(TextTable("", ["entry", "copy", "answers now", "answers next", "evaluations fresh"], lines, words=2))

# %% [markdown]
# What each policy refreshes with its requests, the most important entry first. `ttl` stands for a TTL cache whose
# entries live so long that it sends as many requests: it takes the oldest copies.

# %%
choices: dict[str, list[int]] = {"no refresh": []}
for name in ("ttl", "sbm", "ibm", "gain", "plan", "oracle"):
    chooser = policy(name, ttl_ms=0) if name == "ttl" else policy(name)
    selection = chooser.select(round, Budget(requests, requests), np.random.default_rng(0))
    choices[name] = selection.chosen[:requests].tolist()
refreshed = [[name, ", ".join(entries[number] for number in chosen)] for name, chosen in choices.items()]
show_table(TextTable("", ["policy", "refreshes"], refreshed, words=2))

# %% [markdown]
# The same round as aggregates: an answer is fresh only when all entries of its lookup key are, so `bundle` refreshes
# whole lookup keys.

# %%
aggregate = replace(round, case=Case.AGGREGATE)
refreshed = []
for name in ("sbm", "ibm", "bundle"):
    chosen = policy(name).select(aggregate, Budget(requests, requests), np.random.default_rng(0)).chosen
    refreshed.append([name, ", ".join(entries[number] for number in chosen)])
show_table(TextTable("", ["policy", "refreshes"], refreshed, words=2))

# %% [markdown]
# What it is worth: the share of the answers, now and at the next evaluation, that are fresh after each choice.

# %%
shares = {name: share_fresh(round, chosen) for name, chosen in choices.items()}
texts = {name: f"{100 * share:.0f} %" for name, share in shares.items()}
words = "1 request" if requests == 1 else f"{requests} requests"
sentence = f"With {words} a TTL cache keeps {texts['ttl']} of the answers fresh, and plan {texts['plan']}."
show_sentences(sentence)
bars("Each choice", "of answers fresh, now and next", shares, texts, sentence)
