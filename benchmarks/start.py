"""How long `freshkeeper run` of the README's query takes to its first answer, its last one, and its end.

python benchmarks/start.py          about half a minute: once cold (nothing compiled is on disk), five times warm

Seconds on the clock, which others on the machine make longer, and beside them those of the processor.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from stopwatch import ratios, show

TIMES = 5
WARM_S, COLD_S = 2.0, 10.0
"""What the first answer should take at most."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Start:
    """Seconds since the start: on the clock, and of the processor."""

    first: tuple[float, float]
    last: tuple[float, float]
    end: tuple[float, float]
    said: str


def started(demo: Path, cache: Path) -> Start:
    """One run, with compiled kernels in a directory."""
    command = [sys.executable, "-m", "freshkeeper", "run", str(demo / "demo.yaml")]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    began, times, before = time.monotonic(), list[tuple[float, float]](), os.times()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        for _ in run.stdout:
            times.append((time.monotonic() - began, _processor_s(run.pid)))
        said = run.stderr.read().decode().strip()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Start(times[0], times[-1], (time.monotonic() - began, used), said)


def _processor_s(process: int) -> float:
    """Seconds that a process which runs has had."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        demo, cache = Path(folder) / "demo", Path(folder) / "cache"
        subprocess.run(
            [sys.executable, "-m", "freshkeeper", "demo", "--out", str(demo)], check=True, capture_output=True
        )
        runs = {"cold": [started(demo, cache)], "warm": [started(demo, cache) for _ in range(TIMES)]}
    rows, found = [], dict[str, float]()
    for kind, each in runs.items():
        best = min(each, key=lambda start: start.first[1])
        for what in ("first", "last", "end"):
            clock, processor = getattr(best, what)
            found |= {f"{kind}_{what}_clock_s": clock, f"{kind}_{what}_processor_s": processor}
            rows.append([f"{kind}: {what}", f"{clock:.2f}", f"{processor:.2f}"])
    columns = ["", "clock, s", "processor, s"]
    show(
        f"freshkeeper run demo.yaml, to its first answer (warm at most {WARM_S} s, cold {COLD_S} s), its last, its end",
        columns,
        rows,
    )
    print("cold, it says:", runs["cold"][0].said.splitlines()[0] if runs["cold"][0].said else "nothing")
    ratios(found)


if __name__ == "__main__":
    main()
