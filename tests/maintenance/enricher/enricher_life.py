"""One life of an enricher with a state, until it is killed: its lookups are written down before they are answered."""

import os
import random
import sys
import time
from pathlib import Path

from freshkeeper import Enricher

STEP_MS, PER_STEP = 50, 2


def main(place: Path, seed: int) -> None:
    """Ask at random until somebody ends it."""
    log = os.open(place / "asked.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def lookup(keys: list[str]) -> dict[str, int]:
        os.write(log, f"{time.time_ns() // 1_000_000}\n".encode())
        return {key: time.time_ns() // 300_000_000 for key in keys}

    rng = random.Random(seed)
    with Enricher(lookup, f"{PER_STEP * 1000 // STEP_MS}/s", step=STEP_MS, state=place / "state", batch=3) as enricher:
        print(len(enricher.cache.cells), flush=True)
        while True:
            enricher.get(f"k{int(40 * rng.random() ** 2)}")
            time.sleep(0.001)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
