"""Feeds one target with inputs; the parent watches, because an input may end this process.

Before an input is fed its number is in the file `number` of a directory; what is said goes into `said`.
"""

import json
import os
import resource
import sys
import traceback
from pathlib import Path
from random import Random
from threading import Lock

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
from mutations import mutated
from samples import SAMPLES
from targets import OWN, TARGETS

MEMORY = 3_000_000_000
"""Bytes of data at which the system stops the process; half of it is too much already."""


def made(kind: str, seed: int, number: int) -> bytes:
    """The input of a number."""
    return mutated(Random(f"{seed}/{kind}/{number}"), SAMPLES.get(kind, SAMPLES["lines"]))


def begin(kind: str, seed: int, first: int, last: int, place: Path) -> None:
    """In a process that was forked for it."""
    with (place / "said").open("ab") as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
    os.environ["TOKEN"] = "x"
    feed(kind, seed, first, last, place)


def feed(kind: str, seed: int, first: int, last: int, place: Path) -> None:
    """All inputs, each taken or refused; a traceback is told, and the rest is left to another worker."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    numbers, lock = iter(range(first, last)), Lock()
    with (place / "number").open("r+b", buffering=0) as note:

        def tell(number: int) -> None:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            os.pwrite(note.fileno(), b"%12d %12d" % (number, memory), 0)

        def following() -> bytes | None:
            with lock:  # several requests may be under way
                number = next(numbers, None)
                if number is not None:
                    tell(number)
            return None if number is None else made(kind, seed, number)

        try:
            (TARGETS | OWN)[kind](place, following)
        except BaseException:
            print(json.dumps(traceback.format_exc()), flush=True)
            sys.exit(1)
        tell(last)
