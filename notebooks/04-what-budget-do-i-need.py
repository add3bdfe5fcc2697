# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # What budget do I need?
#
# A recorded run, journal or trace (`FRESHKEEPER_RUN=runs/mine`; without it a small run is simulated) is replayed
# with several budgets. The curve shows what each policy would have kept fresh, beside the bound that nobody can
# beat, and the table names the cheapest budget that meets the target (`FRESHKEEPER_TARGET`, 0.7). On the command
# line this is `freshkeeper replay runs/mine --budget 2,4,8,12 --target .7`.

# %%
import os
import tempfile
from pathlib import Path

from freshkeeper.commands.screen import show, table
from freshkeeper.notebook import figure, freshness
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.replay import cheapest, replay_of

temporary = tempfile.TemporaryDirectory(prefix="freshkeeper-")
place = Path(temporary.name)
target = float(os.environ.get("FRESHKEEPER_TARGET", "0.7"))
given = os.environ.get("FRESHKEEPER_RUN")
run = Path(given) if given else place / "run"
if not given:
    recorded = {"workload": {"change_interval_ms": [1000, 20000]}, "knowledge": "learned", "budget": 3}
    simulate(resolve({**recorded, "policies": "lru", "seeds": 2}), run)

# %% [markdown]
# The replay: the same arrivals and changes, other budgets and policies. A journal without a `run.json` does not say
# how long its window is; give it here as a further key, `"window": "10s"`.

# %%
changes = {"budget": [2, 4, 8, 12], "policies": "lru,ibm,gain,plan"}
found = replay_of(run, changes, place / "trace")
for note in found.notes:
    print(note)
rows = simulate(found.experiment, place / "replay")

# %%
figure(place / "replay", "by-budget")

# %%
freshness(place / "replay")

# %% [markdown]
# The cheapest budget of each policy that meets the target; none, where even the largest does not.

# %%
lines = [
    [policy, knowledge, f"{row.budget:g}" if row else "none of these", f"{row.freshness:.1%}" if row else ""]
    for (policy, _, knowledge, _), row in cheapest(rows, target).items()
]
show(table(f"For {target:.0%} fresh answers", ["policy", "knowledge", "γ", "freshness"], lines, words=2))
