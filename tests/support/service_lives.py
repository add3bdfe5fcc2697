"""A process that forks a service for every line that it reads, so that many lives are quick.

In: {"config": {...}} starts one, and its process id is the answer; {"wait": pid} is answered when it is gone.
"""

import json
import os
import sys

from lives import warm_up

from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.server import serve
from freshkeeper.maintenance.settings.validation import validated


def main() -> None:
    """Fork, or wait for what was forked."""
    warm_up()
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            os.waitpid(asked["wait"], 0)
            print(asked["wait"], flush=True)
            continue
        child = os.fork()
        if not child:
            try:
                serve(validated(ServeConfig, asked["config"]), lambda _: None)
            except Exception as error:
                print(f"the service failed: {error!r}", file=sys.stderr)
            finally:
                os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
