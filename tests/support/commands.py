"""`freshkeeper` in a process of its own, forked from one that has imported everything: its own streams, and quick.

In: {"words": [...], "place": ..., ...}; out, when the command has ended: its exit code, negative after a signal.
"""

import atexit
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from lives import warm_up


def freshkeeper(
    place: Path,
    *words: object,
    stdin: str = "",
    longest: int = resource.RLIM_INFINITY,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory; `longest` bytes are all that a file may have, as on a disk that gets full."""
    with tempfile.TemporaryDirectory() as streams:
        files = [Path(streams) / name for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(stdin)
        for pipe in files[1:]:  # which take as much as there is, whatever files may have
            os.mkfifo(pipe)
        given = [*map(str, words)]
        asked = {
            "words": given,
            "place": str(place),
            "files": [*map(str, files)],
            "longest": longest,
            "environment": dict(os.environ if environment is None else environment),
        }
        server = _server()
        assert server.stdin
        assert server.stdout
        with ThreadPoolExecutor(2) as reading:
            said = reading.map(Path.read_text, files[1:])
            print(json.dumps(asked), file=server.stdin, flush=True)
            return subprocess.CompletedProcess(given, int(server.stdout.readline()), *said)


@cache
def _server() -> subprocess.Popen[str]:
    """One for all tests of this process."""
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    assert server.stdin
    assert server.stdout
    server.stdin.close()
    server.wait()
    server.stdout.close()


def _next() -> dict[str, Any] | None:
    """In the process that was forked for it what is asked; in the one that forks nothing, at the end."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asked: dict[str, Any] = json.loads(line)
            return asked
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def _become(asked: dict[str, Any]) -> None:
    """As if the command had been started: its directory, environment, streams, words and limits."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["place"])
    for number, file in enumerate(asked["files"]):
        os.dup2(os.open(file, os.O_WRONLY if number else os.O_RDONLY), number)
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, closefd=False)  # type: ignore[misc]
    sys.argv = ["freshkeeper", *asked["words"]]
    sys.path[0] = asked["place"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (asked["longest"],) * 2)


if __name__ == "__main__":
    from freshkeeper.__main__ import main

    warm_up()
    gc.freeze()  # or every command that ends would look through all that was imported
    if wanted := _next():
        _become(wanted)
        main()
