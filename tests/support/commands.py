"""`freshkeeper` in processes of their own, forked from one that has imported everything: their own streams, and quick.

A directory of commands named `freshkeeper` and `python` hands what it is called with to that process, over a socket
beside them: words, directory, environment, limits and the streams themselves. Signals go on to the fork that does
it, and its end is theirs.
"""

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from lives import warm_up

CLIENT = """#!{python} -IS
import json, os, resource, signal, socket, sys
place, name = os.path.split(sys.argv[0])
asked = dict(name=name, words=sys.argv[1:], place=os.getcwd(), environment=dict(os.environ))
asked["longest"] = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.path.join(place, "socket"))
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps(asked).encode())
    server.shutdown(socket.SHUT_WR)
    pid = int(server.recv(9))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(server.recv(9) or -signal.SIGKILL)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code not in (-signal.SIGKILL, -signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
LOADED = ("altair", "freshkeeper.simulator.demo", "freshkeeper.simulator.report.page", "highspy")
"""What commands import beside what a run does."""


def freshkeeper(
    place: Path,
    *words: object,
    stdin: str = "",
    longest: int = resource.RLIM_INFINITY,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory; `longest` bytes are all that a file may have, as on a disk that gets full."""
    return subprocess.run(
        [commands() / "freshkeeper", *map(str, words)], cwd=place, env=environment, input=stdin, capture_output=True,
        text=True, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest)),
    )  # fmt: skip


@cache
def commands() -> Path:
    """The directory for PATH, of one server for all tests of this process."""
    place = Path(tempfile.mkdtemp(prefix="freshkeeper-"))
    for name in ("freshkeeper", "python"):
        (place / name).write_text(CLIENT.format(python=sys.executable))
        (place / name).chmod(0o755)
    words = [sys.executable, __file__, str(place / "socket")]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, server, place)
    assert server.stdout
    assert server.stdout.readline() == "ready\n"
    return place


def _end(server: subprocess.Popen[str], place: Path) -> None:
    server.communicate()
    shutil.rmtree(place)


def _next(door: socket.socket) -> dict[str, object] | None:
    """In the process that was forked for it what is asked; in the one that forks nothing, at the end."""
    print("ready", flush=True)
    while sys.stdin not in select.select([sys.stdin, door], [], [])[0]:
        connection, _ = door.accept()
        if not os.fork():
            return _asked(connection)
        connection.close()
    return None


def _asked(connection: socket.socket) -> dict[str, object]:
    """In another fork what came over the connection; here its exit code is told, negative after a signal."""
    streams = socket.recv_fds(connection, 1, 3)[1]
    with connection.makefile("rb") as said:
        asked: dict[str, object] = json.load(said)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    for number, stream in enumerate(streams):
        if not child:
            os.dup2(stream, number)
        os.close(stream)
    if child:
        connection.sendall(b"%-9d" % child)
        connection.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        os._exit(0)
    connection.close()
    return asked


def _become(asked: dict[str, Any]) -> None:
    """As if the command had been started: its directory, environment, streams, words and limits."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["place"])
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, closefd=False)  # type: ignore[misc]
    sys.argv = [asked["name"], *asked["words"]] if asked["name"] == "freshkeeper" else asked["words"]
    sys.path[:1] = [asked["place"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    resource.setrlimit(resource.RLIMIT_FSIZE, (asked["longest"],) * 2)


def _share_scripts(place: Path) -> None:
    """What draws the plots of a page takes a second to be made: the first command leaves it there for all others."""
    made = vl_convert.javascript_bundle

    def bundle(snippet: str, vl_version: str | None = None) -> str:
        words = f"{vl_version} {snippet}"
        kept = place / f"{zlib.crc32(words.encode())}.js"
        if not kept.exists():
            part = kept.with_suffix(f".{os.getpid()}")
            part.write_text(made(snippet, vl_version), "utf-8")
            part.rename(kept)
        return kept.read_text("utf-8")

    vl_convert.javascript_bundle = bundle


if __name__ == "__main__":
    from freshkeeper.__main__ import main

    warm_up()
    for module in LOADED:
        importlib.import_module(module)
    gc.freeze()  # or every command that ends would look through all that was imported
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks that wait for commands
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(sys.argv[1])
        here.listen()
        wanted = _next(here)
    if wanted:
        if wanted["longest"] == resource.RLIM_INFINITY:
            _share_scripts(Path(sys.argv[1]).parent)
        _become(wanted)
        del __file__  # or processes of a command's own would begin with this program
        main() if wanted["name"] == "freshkeeper" else runpy.run_path(sys.argv[0], run_name="__main__")
