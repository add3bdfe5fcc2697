"""One budget for the workers that gunicorn, uvicorn and Celery fork or spawn: real servers, counted requests."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from counting import CountingServer
from databases import free_port, redis_server, running
from servers import HERE

pytestmark = pytest.mark.slow

APP = """
import os, socket
from freshkeeper import AsyncEnricher, Enricher

def lookup(keys):
    connection = socket.create_connection(("127.0.0.1", int(os.environ["COUNTING"])))
    connection.sendall((" ".join(map(str, keys)) + "\\n").encode())
    connection.recv(1)
    connection.close()
    return {key: key.upper() for key in keys}

SETTINGS = {"budget": "50/s", "bank": 0.2, "store": os.environ["STORE"], "max_wait": 5}
"""
WSGI = """
enricher = Enricher(lookup, **SETTINGS)
assert enricher.get("warmed").value == "WARMED"  # with --preload, threads have run before the fork

def app(environ, start_response):
    row = enricher.get(environ["PATH_INFO"][1:])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {row.value} {row.hit} {row.error}".encode()]
"""
ASGI = """
enricher = AsyncEnricher(lookup, **SETTINGS)

async def app(scope, receive, send):
    if scope["type"] == "http":
        row = await enricher.get(scope["path"][1:])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = f"{os.getpid()} {row.value} {row.hit} {row.error}".encode()
        await send({"type": "http.response.body", "body": body})
"""
TASKS = """
from celery import Celery

app = Celery("app", broker=os.environ["STORE"], backend=os.environ["STORE"])
app.conf.worker_prefetch_multiplier = 1
enricher = Enricher(lookup, **SETTINGS)

@app.task
def read(key):
    row = enricher.get(key)
    return [os.getpid(), row.value, row.hit, row.error]
"""
KEYS = [f"{letter}{n % 25}" for n in range(100) for letter in "abc"]
"""75 keys, each four times"""


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with CountingServer() as found:
        yield found


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a store."""
    if request.param == "sqlite":
        yield str(tmp_path / "cache.db")
    else:
        with redis_server(tmp_path) as port:
            yield f"redis://{HERE}:{port}/0"


def environment(place: Path, program: str, store: str, server: CountingServer) -> dict[str, str]:
    """Write app.py, and return the variables it runs with."""
    (place / "app.py").write_text(APP + program)
    return {
        **os.environ,
        "STORE": store,
        "COUNTING": str(server.port),
        "PYTHONPATH": f"{place}:{os.environ.get('PYTHONPATH', '')}",
    }


@contextmanager
def serving(place: Path, program: str, store: str, server: CountingServer, *command: str) -> Iterator[str]:
    """An app server with the program; its address."""
    port = free_port()
    words = [sys.executable, "-m", *(word.format(port=port) for word in command)]
    with running(words, port, cwd=place, env=environment(place, program, store, server)):
        yield f"http://{HERE}:{port}"


def read_all(address: str) -> list[list[str]]:
    """Process, value, hit and error of each key, read by eight clients at once."""

    def read(key: str) -> list[str]:
        with urllib.request.urlopen(f"{address}/{key}", timeout=30) as answer:
            found: list[str] = answer.read().decode().split(" ", 3)
            return found

    with ThreadPoolExecutor(8) as clients:
        return list(clients.map(read, KEYS))


def check(server: CountingServer, began: float, answers: list[list[str]]) -> None:
    """All keys are answered, by several workers, each is fetched about once, and the budget held."""
    server.held_to(began, 50, bank=10)
    assert [(value, error) for _, value, _, error in answers] == [(key.upper(), "None") for key in KEYS]
    assert len(Counter(process for process, *_ in answers)) > 1
    counted = Counter(server.keys)
    assert len(counted.keys() - {"warmed"}) == 75
    assert sum(hit == "True" for _, _, hit, _ in answers) > 100


def test_gunicorn_with_preload(tmp_path: Path, store: str, server: CountingServer) -> None:
    command = ["gunicorn", "--preload", "--workers", "3", "--threads", "2", "--bind", HERE + ":{port}", "app:app"]
    began = time.monotonic()
    with serving(tmp_path, WSGI, store, server, *command) as address:
        check(server, began, read_all(address))


def test_workers_of_uvicorn(tmp_path: Path, store: str, server: CountingServer) -> None:
    command = ["uvicorn", "--workers", "2", "--host", HERE, "--port", "{port}", "--log-level", "error", "app:app"]
    began = time.monotonic()
    with serving(tmp_path, ASGI, store, server, *command) as address:
        check(server, began, read_all(address))


def test_celery(tmp_path: Path, server: CountingServer) -> None:
    began = time.monotonic()
    with redis_server(tmp_path) as port:
        variables = environment(tmp_path, TASKS, f"redis://{HERE}:{port}/0", server)
        worker = [sys.executable, "-m", "celery", "-A", "app", "worker", "--concurrency", "3", "--loglevel", "ERROR"]
        client = (
            "from app import read; import json, sys\n"
            "tasks = [read.delay(key) for key in json.loads(sys.argv[1])]\n"
            "print(json.dumps([task.get(timeout=60) for task in tasks]))"
        )
        process = subprocess.Popen(worker, cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL)
        try:
            answers = subprocess.run(
                [sys.executable, "-c", client, json.dumps(KEYS)],
                cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120, check=True,
            ).stdout  # fmt: skip
        finally:
            process.terminate()
            process.wait(30)
    check(server, began, [[str(part) for part in answer] for answer in json.loads(answers)])
