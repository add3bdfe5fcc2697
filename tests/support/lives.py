"""A process that forks a run for every line that it reads: what a run imports is imported once, so fifty are quick.

In: {"port": ..., "session": {...}} starts a run that talks over a socket, or with "output": ... one that writes to
this descriptor, of which "room" says how large a file it may get; its process id is the answer.
{"wait": pid} is answered when that process is gone.
"""

import gc
import json
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas  # noqa: F401  pyarrow imports it where it is installed, with the first table

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.outputs.result_sink import ResultSink
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime import query_journal
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session


def connect(port: int) -> None:
    """Elements come in over the socket, and lines go out."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for descriptor in (0, 1):
        os.dup2(connection.fileno(), descriptor)
    connection.close()


def live(settings: dict[str, object]) -> None:
    """One run, whose lines go out as `freshkeeper run` writes them."""
    query_journal.ROWS_PER_PART = 100
    text = str(settings.pop("text"))
    places = [name for name in ("state", "journal") if name in settings]
    settings |= {name: Path(str(settings[name])) for name in places}
    session = Session(config_of(settings | {"query": text}), parse(text))
    out = ResultSink.begin(
        sys.stdout, session.config.format, resumed=session.is_resumed, partial=session.may_be_partial
    )
    for result in session.results():
        out.put(result)


QUERY = """PREFIX : <http://e/> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S]
WHERE { WINDOW :w { ?a :b ?c } SERVICE :x { ?c :d ?e . ?e :f ?g } }"""


def warm_up() -> None:
    """Run something small, so that compiled code and libraries are there before anything is forked."""
    with tempfile.TemporaryDirectory() as place:
        stream, data = Path(place) / "s.nq", Path(place) / "x.ttl"
        stream.write_text(
            "1\t<http://e/a> <http://e/b> <http://e/c> .\n2000\t<http://e/a> <http://e/b> <http://e/c> .\n"
        )
        data.write_text("<http://e/c> <http://e/d> <http://e/e> . <http://e/e> <http://e/f> 1 .")
        inputs = {"streams": {"http://e/s": str(stream)}, "sources": {"http://e/x": str(data)}}
        config = config_of({"query": QUERY, "volatile": {"http://e/x": "http://e/f"}, "policy": "lru", **inputs})
        list(Session(config, parse(QUERY)).results())


def begin(asked: dict[str, Any]) -> None:
    """The run of a line, in the process that was forked for it."""
    if "port" in asked:
        connect(asked["port"])
    else:
        os.dup2(asked["output"], 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["room"], asked["room"]))
    try:
        live(asked["session"])
    except ConfigError as error:
        full = "standard output cannot be written: File too large"
        print("" if full in str(error) else error, end="", file=sys.stderr)


def fork(begin: Callable[[dict[str, object]], None]) -> None:
    """A process for every line, or wait for what was forked."""
    warm_up()
    gc.freeze()  # no life looks through what was imported
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            os.waitpid(asked["wait"], 0)
            print(asked["wait"], flush=True)
            continue
        child = os.fork()
        if not child:
            try:
                begin(asked)
            except Exception as error:
                print(f"it failed: {error!r}", file=sys.stderr)
            finally:
                os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    fork(begin)
