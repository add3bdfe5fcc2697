# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # A Spark stream joined with data that somebody else owns
#
# `enrich_windows` joins a stream with a remote source through a local view, keeps the view as fresh as a budget
# allows, and writes every answer with the chance that it is right. Here the stream is timestamped RDF that arrives in
# files, and
# the source is a stand-in whose values change on their own; yours would be a SPARQL endpoint or anything else that
# has `fetch` and `expand`. In the end its answers are compared with those of a TTL cache. It needs Java 17 or newer.

# %% tags=["parameters"]
budget = 1  # requests per evaluation
policies = ["ttl", "lru", "gain"]  # the policies to compare; the last one is run first, and restarted
ttl_ms = 20_000  # how long an entry of the TTL cache lives: here it sends about as many requests
master = "local[2]"  # where Spark runs

# %%
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame

from freshkeeper import Copy, Expanded, Fetched, Price
from freshkeeper import policy as policy_of
from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.spark.enrich import enrich_windows, read_journal
from freshkeeper.maintenance.spark.rdf_lines import statements
from freshkeeper.notebook import bars

place = Path(tempfile.mkdtemp())
spark = spark_session(master, {"spark.sql.adaptive.enabled": "false"})

# %% [markdown]
# ## The stream
#
# One statement to a line, after its time in milliseconds: 600 mentions of 12 topics within 40 seconds.

# %%
rng = np.random.default_rng(1)
times = np.sort(rng.integers(0, 40_000, 600))
topics = rng.zipf(1.5, 600) % 12
lines = [f'{t}\t<urn:post{n}> <urn:about> "t{k}" .\n' for n, (t, k) in enumerate(zip(times, topics, strict=True))]
(place / "posts").mkdir()


def arrive(part: int) -> None:
    """A quarter of them as a file; Spark reads files in the order of their times, and these come at once."""
    file = place / "posts" / f"{part}.nq"
    file.write_text("".join(lines[150 * part : 150 * (part + 1)]))
    os.utime(file, (part, part))


for part in range(3):
    arrive(part)

posts = statements(spark.readStream.option("maxFilesPerTrigger", 1).text(str(place / "posts")))
posts.printSchema()

# %% [markdown]
# The join column is a column like any other: here the topic, taken out of the literal.

# %%
mentions = posts.selectExpr("event_time", "trim(BOTH '\"' FROM object) AS topic")

# %% [markdown]
# ## The source
#
# Who writes about a topic, and how many followers they have. Followers change: of some writers every second, of others
# every minute. A request costs 1.


# %%
class Followers:
    """Somebody else's data."""

    price = Price()

    def followers(self, writer: int, now: int) -> int:
        """A number that changes at a pace of the writer's own."""
        return 100 + now // (1000 * (1 + 7 * (writer % 8)))

    def fetch(self, keys: Sequence[int], now: int) -> Fetched:
        """The present numbers of some writers."""
        return Fetched([Copy(self.followers(key, now)) for key in keys], len(keys), len(keys))

    def expand(self, sn: str, now: int) -> Expanded:
        """The writers on a topic, with their numbers; a topic that is new to the view is asked for so."""
        writers = [(int(sn[1:]) * 5 + n) % 24 for n in range(3)]
        return Expanded({writer: Copy(self.followers(writer, now)) for writer in writers}, 1, 1)


# %% [markdown]
# ## The query
#
# A window of 8 s, an evaluation every second of event time, and a budget for each. Nothing is known of changes but
# what refreshes reveal. `state` is where the query keeps what must outlive it.


# %%
def run(policy: str) -> DataFrame:
    """Everything that is there, with one policy."""
    writer = enrich_windows(
        mentions,
        on="topic",
        source=Followers(),
        policy=policy_of("ttl", ttl_ms=ttl_ms) if policy == "ttl" else policy,
        budget=budget,
        window="8s",
        step="1s",
        value="bigint",
        state=place / policy / "state",
        sink=place / policy / "answers",
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.read.parquet(str(place / policy / "answers"))


best = policies[-1]
answers = run(best)
answers.orderBy("k", "topic", "sr").show(8)

# %% [markdown]
# ## It goes on where it stopped
#
# More posts arrive; the query is started again. Evaluations follow on each other without a gap, each was paid once, and
# a kill at any moment would have changed nothing about that.

# %%
arrive(3)
answers = run(best)
evaluations = read_journal(place / best / "state", "evaluations").to_pandas()
print(evaluations[["k", "window_mappings", "candidates", "budget", "spent", "expected_fresh", "results"]].tail(5))
print((place / best / "state" / "progress.json").read_text())

# %% [markdown]
# ## What the answers say of themselves, and what is true
#
# `fresh` is the chance that an answer is right. Of this source we know the truth, so both can be compared, policy by
# policy, with the same budget; a TTL cache heeds none, and sends what its entries' time to live takes. An answer is
# right if its copy was fetched since the last change. The order depends on the budget: with 2 or 3 requests per
# evaluation `lru` and the TTL cache are ahead of `gain` here, since nearly all entries fit into the budget.

# %%
truth = "t_ms - pmod(t_ms, 1000 * (1 + 7 * pmod(int(sr), 8))) <= refreshed_ms"
right, texts = {}, {}
for policy in policies:
    shares = f"sum(IF({truth}, weight, 0)) / sum(weight) AS right"
    (found,) = run(policy).selectExpr("sum(weight * fresh) / sum(weight) AS said", shares).collect()
    spent = float(read_journal(place / policy / "state", "evaluations").to_pandas()["spent"].mean())
    right[policy] = found["right"]
    texts[policy] = f"{100 * found['right']:.1f} % with {spent:.2f} requests"
    print(f"{policy:5s} says {found['said']:.3f}, and {found['right']:.3f} are right, for {spent:.2f} requests each")

# %%
sentence = "; ".join(f"{policy} {text} per evaluation" for policy, text in texts.items())
bars("The policies beside a TTL cache", "of answers right", right, texts, f"Right answers: {sentence}.")

# %%
spark.stop()
shutil.rmtree(place)
