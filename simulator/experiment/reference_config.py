"""The reference config of experiments: every key with its default and its meaning."""

from freshkeeper.maintenance.settings.reference import reference as written
from freshkeeper.simulator.experiment.experiment_config import Experiment

HEAD = """\
Every key of an experiment with its default, which is 002's own where 002 says one.
A list where one value is expected means a grid; `sweep` varies any key, dotted.
Try: freshkeeper simulate configs/reference.yaml"""


def reference() -> str:
    """The whole file."""
    return written(HEAD, Experiment())
