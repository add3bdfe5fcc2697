"""What forks Spark's Python workers, when it has imported what they need: otherwise each of them does, for a second.

The code that a session ships is what workers elsewhere have: `test_standalone_cluster.py` runs on that.
"""

import gc
import importlib
import sys

from pyspark.daemon import manager

NEEDED = (
    "freshkeeper.maintenance.analysis.spark_engine",
    "freshkeeper.maintenance.spark.answer_stream",
    "freshkeeper.maintenance.spark.enrichment.on_executors",
    "freshkeeper.simulator.experiment.spark_tasks",
    "pandas",
)

if __name__ == "__main__":
    if sys.argv[1] == "pyspark.worker":  # those of data sources need little
        for name in NEEDED:
            importlib.import_module(name)
        gc.freeze()
    manager()
