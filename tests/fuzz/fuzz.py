"""A fuzzer of everything that comes from outside: answers of sources, streams, configs, states.

    python tests/fuzz/fuzz.py 50000                 so many inputs, parted between all kinds; make fuzz
    python tests/fuzz/fuzz.py 5000 --seed 7 lines   of some kinds, with this seed
    python tests/fuzz/fuzz.py --show lines 7 123    an input, by kind, seed and number

Inputs are valid ones with changes. A worker may take an input or refuse it with an error of ours; a traceback, a
signal, too much memory or time is a failure, told with the seed and the number that make the input again.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
from targets import TARGETS
from worker import begin, made

WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload([name for name in sys.modules if name.startswith("freshkeeper.")])
ONE = Lock()
"""To start a process looks how all others ended, which must not be asked by two threads at once."""
MOST = 1_500_000_000
"""Bytes of memory that a worker may have at any time."""
PATIENCE = 60.0
"""Seconds for one input."""
PART = 1_000
"""Inputs of one worker."""
ENOUGH = 5
"""Failures of one part, which is left then."""


@dataclass(frozen=True)
class Failure:
    """An input that was neither taken nor refused."""

    kind: str
    seed: int
    number: int
    why: str

    def __str__(self) -> str:
        """How to see the input."""
        again = f"python tests/fuzz/fuzz.py --show {self.kind} {self.seed} {self.number}"
        return f"{self.kind}: input {self.number} of seed {self.seed}: {self.why}\n  {again}"


@dataclass
class Fuzzed:
    """What came of the inputs of one kind."""

    kind: str
    inputs: int = 0
    seconds: float = 0.0
    peak: int = 0
    """bytes"""
    failures: list[Failure] = field(default_factory=list)


def fuzz(kind: str, seed: int, first: int, last: int, patience: float = PATIENCE) -> Fuzzed:
    """Feed the inputs of these numbers; after one that ends its worker, another worker goes on."""
    done, began = Fuzzed(kind, last - first), time.monotonic()
    while first < last and len(done.failures) < ENOUGH:
        number, peak, why = _worked(kind, seed, first, last, patience)
        done.peak = max(done.peak, peak)
        if peak > MOST:
            why = why or f"{peak / 1e6:.0f} MB of memory"
        if why:
            done.failures.append(Failure(kind, seed, min(number, last - 1), why))
        first = number + 1 if why else last
    done.seconds = time.monotonic() - began
    return done


def _worked(kind: str, seed: int, first: int, last: int, patience: float) -> tuple[int, int, str]:
    """The number that a worker came to, its memory, and what ended it before its time."""
    with tempfile.TemporaryDirectory() as place:
        note = Path(place) / "number"
        note.write_text(f"{first} 0")
        with (Path(place) / "said").open("w+b") as said:
            process = WORKERS.Process(target=begin, args=(kind, seed, first, last, Path(place)))
            with ONE:
                process.start()
            try:
                late = _watched(process, note, patience)
            finally:
                with ONE:
                    if process.exitcode is None:
                        process.kill()
                    process.join()
            said.seek(0)
            words = said.read()[-4_000:].decode("utf-8", "replace")
        number, peak = (int(part) for part in note.read_text().split())
    if late:
        return number, peak * 1000, f"no end after {patience:g} s"
    code = process.exitcode or 0
    if code < 0:
        return number, peak * 1000, f"signal {-code}; {words[-300:]}"
    return number, peak * 1000, _shown(words) if code else ""


def _watched(process: BaseProcess, note: Path, patience: float) -> bool:
    """Whether an input took too long."""
    seen, since = b"", time.monotonic()
    while not wait([process.sentinel], 0.5):
        now = note.read_bytes()
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > (patience if int(now.split()[-1]) else PATIENCE):  # it has begun
            return True
    return False


def _shown(words: str) -> str:
    try:
        trace: str = json.loads(words.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return f"the worker ended: {words[-300:]}"
    steps = [line.strip() for line in trace.splitlines() if line.strip().startswith("File")]
    return f"{trace.strip().splitlines()[-1][:300]} ({steps[-1] if steps else 'nowhere'})"


def fuzz_all(inputs: int, seed: int, kinds: Sequence[str], jobs: int = 2) -> list[Fuzzed]:
    """So many inputs in all, told kind by kind."""
    each = -(-inputs // len(kinds))
    parts = [(kind, first, min(each, first + PART)) for first in range(0, each, PART) for kind in kinds]
    found = {kind: Fuzzed(kind) for kind in kinds}
    with ThreadPoolExecutor(jobs) as threads:
        for part in threads.map(lambda part: fuzz(part[0], seed, part[1], part[2]), parts):
            whole = found[part.kind]
            whole.inputs += part.inputs
            whole.seconds += part.seconds
            whole.peak = max(whole.peak, part.peak)
            whole.failures += part.failures
            for failure in part.failures:
                print(failure, flush=True)
    return list(found.values())


def main() -> int:
    """From the command line; tells what failed by its exit code."""
    parser = argparse.ArgumentParser(description="fuzz everything that comes from outside")
    parser.add_argument("inputs", nargs="?", type=int, default=50_000)
    parser.add_argument("kinds", nargs="*", help=", ".join(TARGETS))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", nargs=3, metavar=("KIND", "SEED", "NUMBER"))
    given = parser.parse_args()
    if given.show:
        sys.stdout.buffer.write(made(given.show[0], int(given.show[1]), int(given.show[2])))
        return 0
    print(f"seed {given.seed}", flush=True)
    found = fuzz_all(given.inputs, given.seed, given.kinds or list(TARGETS), given.jobs)
    for one in found:
        rate = one.inputs / max(one.seconds, 0.001)
        print(
            f"{one.kind:12} {one.inputs:6} inputs {rate:6.0f}/s {one.peak / 1e6:6.0f} MB {len(one.failures)} failures"
        )
    return int(any(one.failures for one in found))


if __name__ == "__main__":
    sys.exit(main())
