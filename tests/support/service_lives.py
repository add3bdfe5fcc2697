"""A process that forks a service for every line that it reads, as `lives` forks runs.

In: {"config": {...}} starts one, and its process id is the answer; {"wait": pid} is answered when it is gone.
"""

from lives import fork

from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.server import serve
from freshkeeper.maintenance.serve.warm_up import warm_up


def begin(asked: dict[str, object]) -> None:
    """The service of a line."""
    serve(validated(ServeConfig, asked["config"]), lambda _: None)


if __name__ == "__main__":
    warm_up()  # what is forked has it
    fork(begin)
