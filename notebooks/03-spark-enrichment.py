# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # A Spark stream joined with data that somebody else owns
#
# `enrich` joins a stream with a remote source through a local view, keeps the view as fresh as a budget allows, and
# writes every answer with the chance that it is right. Here the stream is timestamped RDF that arrives in files, and
# the source is a stand-in whose values change on their own; yours would be a SPARQL endpoint or anything else that
# has `fetch` and `expand`. It needs Java 17 or newer.

# %%
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame

from freshkeeper import Copy, Expanded, Fetched, Price
from freshkeeper.maintenance.analysis.spark_session import spark_session
from freshkeeper.maintenance.spark.enrich import enrich, read_journal
from freshkeeper.maintenance.spark.rdf_lines import statements

place = Path(tempfile.mkdtemp())
spark = spark_session("local[2]", {"spark.sql.adaptive.enabled": "false"})

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
# A window of 8 s, an evaluation every second of event time, 3 requests per evaluation. Nothing is known of changes but
# what refreshes reveal. `state` is where the query keeps what must outlive it.


# %%
def run(policy: str) -> DataFrame:
    """Everything that is there, with one policy."""
    writer = enrich(
        mentions,
        on="topic",
        source=Followers(),
        policy=policy,
        budget=3,
        window="8s",
        step="1s",
        value="bigint",
        state=place / policy / "state",
        sink=place / policy / "answers",
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.read.parquet(str(place / policy / "answers"))


answers = run("gain")
answers.orderBy("k", "topic", "sr").show(8)

# %% [markdown]
# ## It goes on where it stopped
#
# More posts arrive; the query is started again. Evaluations follow on each other without a gap, each was paid once, and
# a kill at any moment would have changed nothing about that.

# %%
arrive(3)
answers = run("gain")
evaluations = read_journal(place / "gain" / "state", "evaluations").to_pandas()
print(evaluations[["k", "window_mappings", "candidates", "budget", "spent", "expected_fresh", "results"]].tail(5))
print((place / "gain" / "state" / "progress.json").read_text())

# %% [markdown]
# ## What the answers say of themselves, and what is true
#
# `fresh` is the chance that an answer is right. Of this source we know the truth, so both can be compared, policy by
# policy, with the same budget. An answer is right if its copy was fetched since the last change.

# %%
truth = "t_ms - pmod(t_ms, 1000 * (1 + 7 * pmod(int(sr), 8))) <= refreshed_ms"
for policy in ("lru", "gain"):
    right = f"sum(IF({truth}, weight, 0)) / sum(weight) AS right"
    (found,) = run(policy).selectExpr("sum(weight * fresh) / sum(weight) AS said", right).collect()
    print(f"{policy:5s} says {found['said']:.3f}, and {found['right']:.3f} are right")

# %%
spark.stop()
shutil.rmtree(place)
