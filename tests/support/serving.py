"""A service in this process, on a port of its own."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.query.model import Form, Operator
from freshkeeper.maintenance.serve.app import application
from freshkeeper.maintenance.serve.app_context import AppContext
from freshkeeper.maintenance.serve.connections import ConnectionLimits
from freshkeeper.maintenance.serve.connectors.connectors import Connectors
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.server import bound_to, opened, web_server

E = "http://example.org/"
POSTS = f"{E}posts"
REACH = f"""PREFIX : <{E}> REGISTER RSTREAM :reach AS
SELECT ?topic ?n FROM NAMED WINDOW :w ON :posts [RANGE PT4S STEP PT1S]
{{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
TOPICS = f"""PREFIX : <{E}> REGISTER RSTREAM :topics AS
SELECT ?post ?topic FROM NAMED WINDOW :w ON :posts [RANGE PT2S STEP PT1S] {{ WINDOW :w {{ ?post :topic ?topic }} }}"""
BLOG = f"@prefix : <{E}> . :jazz :discussedBy :ann . :ann :followers 10 . :rock :discussedBy :bob . :bob :followers 3 ."


def posts(*times: int, topic: str = "jazz") -> str:
    """An element at each instant."""
    return "".join(f"{t}\t<{E}p{t}> <{E}topic> <{E}{topic}> .\n" for t in times)


def configured(place: Path, **more: object) -> ServeConfig:
    """A service over a file, whose state is in a place."""
    (place / "blog.ttl").write_text(BLOG)
    blog = {"data": str(place / "blog.ttl"), "volatile": f"{E}followers"}
    given: Mapping[str, object] = {"streams": [POSTS], "sources": {f"{E}blog": blog}, "state": str(place / "state")}
    return validated(ServeConfig, {**given, **more})


def empty_result(query: str, t: int) -> Result:
    """An evaluation without answers."""
    return Result(t, Form.SELECT, Operator.RSTREAM, ("x",), [], query=query)


class Client(httpx.Client):
    """Speaks to it."""

    context: AppContext
    """of a service in this process"""

    def push(self, text: str, stream: str = POSTS, **headers: str) -> httpx.Response:
        """Lines of elements."""
        return self.post(f"/streams/{stream}", content=text, headers={"Content-Type": "application/n-quads", **headers})

    def register(self, name: str, query: str) -> httpx.Response:
        """A query."""
        return self.post("/queries", json={"name": name, "query": query})

    def answered(self, name: str) -> int | None:
        """The last evaluation that is out."""
        found: int | None = self.get(f"/queries/{name}").raise_for_status().json()["answered"]
        return found


@contextmanager
def served(
    config: ServeConfig,
    guard: Guard | None = None,
    segment: int | None = None,
    port: int = 0,
    limits: ConnectionLimits | None = None,
) -> Iterator[Client]:
    """Until the end of the block; with `segment`, a new one begins after so many bytes of the log."""
    context = opened(config, guard or Guard(None, None))
    service = context.service
    service.segment_bytes = segment or service.segment_bytes
    connectors = Connectors.of(config, context, lambda _: None)
    bound = bound_to("127.0.0.1", port)
    server = web_server(application(context), context, limits or ConnectionLimits(1000, 1000))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    connectors.start()
    try:
        with Client(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}", timeout=60) as client:
            client.context = context
            yield client
    finally:
        server.handle_exit(0, None)
        thread.join()
        bound.close()
        connectors.close()


def serving(path: Path) -> tuple[subprocess.Popen[str], str]:
    """A service in a process of its own, and its address."""
    command = [sys.executable, "-m", "freshkeeper", "serve", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "serving at" in line)
    return process, line.split()[2]
