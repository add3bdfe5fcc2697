"""The stateful plug-in of the docs on every host, killed and restarted once: it chooses as in an unbroken run."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import plug_in_hosts
import pytest
from commands import freshkeeper
from enriched import asked
from servers import eventually
from serving import POSTS, REACH, Client, E

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.spark.enrich import read_journal
from freshkeeper.policies.plug_in_template import write_package

pytestmark = pytest.mark.slow
POLICY = plug_in_hosts.POLICY


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that find the plug-in."""
    package = tmp_path_factory.mktemp("plug-in") / "bandit"
    write_package("bandit", package)
    paths = [str(package), str(Path(plug_in_hosts.__file__).parent), *filter(None, sys.path)]
    paths = [path for path in paths if not path.endswith(".zip")]  # the code that a session of Spark has shipped
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def live(host: str, place: Path, after: int, environment: dict[str, str]) -> None:
    """One life of a host, until its end or until it kills itself."""
    place.mkdir(exist_ok=True)
    program = [sys.executable, plug_in_hosts.__file__, host, str(place), str(after)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == (-signal.SIGKILL if after else 0), done.stderr


def choices_of(table: Any) -> list[tuple[int, str]]:
    """The choices in a table of refreshes, by evaluation."""
    return sorted((row["k"], row["sr"]) for row in table.to_pylist())


def from_lines(place: Path) -> list[str]:
    return (place / "choices").read_text().splitlines()


def from_journal(place: Path) -> list[tuple[int, str]]:
    return choices_of(journal.read(place / "journal", "refreshes"))


def from_state(place: Path) -> list[tuple[int, str]]:
    return choices_of(read_journal(place / "state", "refreshes"))


@pytest.mark.parametrize(
    ("host", "after", "choices"),
    [("manager", 14, from_lines), ("run", 12, from_journal), ("batches", 6, from_state)],
)
def test_choices_after_a_kill_are_those_of_an_unbroken_run(
    tmp_path: Path, environment: dict[str, str], host: str, after: int, choices: Callable[[Path], list[Any]]
) -> None:
    live(host, tmp_path / "unbroken", 0, environment)
    live(host, tmp_path / "broken", after, environment)
    live(host, tmp_path / "broken", 0, environment)
    assert choices(tmp_path / "broken") == choices(tmp_path / "unbroken") != []


def test_choices_on_spark_after_a_kill_are_those_of_a_manager(tmp_path: Path, environment: dict[str, str]) -> None:
    live("batches", tmp_path / "unbroken", 0, environment)
    live("spark", tmp_path / "spark", 2, environment)
    live("spark", tmp_path / "spark", 0, environment)
    assert from_state(tmp_path / "spark") == from_state(tmp_path / "unbroken") != []
    assert asked(tmp_path / "spark") == asked(tmp_path / "unbroken")


@contextlib.contextmanager
def service(place: Path, environment: dict[str, str]) -> Iterator[Client]:
    """A service of its own process, killed at the end."""
    place.mkdir(exist_ok=True)
    blog = "".join(f":t{n} :discussedBy :u{n}, :u{n + 1} . :u{n} :followers {n} . " for n in range(9))
    (place / "blog.ttl").write_text(f"@prefix : <{E}> . {blog}")
    changes = [f'{t * 700}\t<{E}u{t % 9}> <{E}followers> "{t}" .\n' for t in range(1, 40)]
    (place / "changes.nq").write_text("".join(changes))
    source = {"data": "blog.ttl", "volatile": f"{E}followers", "changes": "changes.nq"}
    config = {
        "streams": [POSTS], "sources": {f"{E}blog": source}, "state": "state", "journal": "journal", "budget": 2,
        "policy": {"name": "bandit_policy:Bandit", "bonus": 2}, "listen": "127.0.0.1:0",
    }  # fmt: skip
    (place / "serve.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "freshkeeper", "serve", "serve.yaml"]
    with (place / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=place, env=environment, stderr=errors, stdout=errors)
    try:
        assert eventually(lambda: _address(place / "errors", process), 60)
        with Client(base_url=_address(place / "errors", process), timeout=60) as client:
            yield client
    finally:
        process.kill()
        process.wait()


def _address(errors: Path, process: "subprocess.Popen[bytes]") -> str:
    assert process.poll() is None, errors.read_text()
    words = errors.read_text().split()
    return next((word.rstrip("/,;:.") for word in words if word.startswith("http://127.0.0.1:")), "")


def push_seconds(client: Client, seconds: range) -> None:
    """Elements of these seconds; waits until their evaluations are done."""
    for second in seconds:
        lines = [f"{second * 1000 + n}\t<{E}p{second}-{n}> <{E}topic> <{E}t{(second * n) % 8}> .\n" for n in range(4)]
        assert client.push("".join(lines)).status_code in (200, 202, 204)
    last = (seconds.stop - 1) * 1000
    assert eventually(lambda: (_view(client)["last"] or {"t": 0})["t"] >= last, 60)


def _view(client: Client) -> dict[str, Any]:
    views: list[dict[str, Any]] = client.get("/status").json()["views"]
    return views[0]


def test_choices_of_a_service_after_a_kill_are_those_of_an_unbroken_one(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with service(tmp_path / "unbroken", environment) as client:
        client.register("reach", REACH)
        push_seconds(client, range(1, 21))
        unbroken = _view(client)
    with service(tmp_path / "broken", environment) as client:
        client.register("reach", REACH)
        push_seconds(client, range(1, 11))
    with service(tmp_path / "broken", environment) as client:
        push_seconds(client, range(11, 21))
        broken = _view(client)
    assert (broken["policy"], broken["failed_rounds"]) == ("bandit(bonus=2)", 0)
    assert broken["policy_metrics"] == unbroken["policy_metrics"] != {"entries": 0}
    assert broken["ledger"] == unbroken["ledger"]


@pytest.mark.parametrize("command", ["simulate", "replay"])
def test_choices_of_a_simulation_after_a_kill_are_those_of_an_unbroken_one(
    tmp_path: Path, environment: dict[str, str], command: str
) -> None:
    live("run", tmp_path, 0, environment)
    words: list[object] = ["simulate", "--policy", POLICY, "--seeds", 3, "--knowledge", "learned", "--evaluations", 30]
    if command == "replay":
        words = ["replay", "journal", "--policy", POLICY, "--seeds", 3, "--knowledge", "learned"]
    done = freshkeeper(tmp_path, *words, "--out", "unbroken", "--no-report", environment=environment)
    assert done.returncode == 0, done.stderr
    program = [sys.executable, "-m", "freshkeeper", *map(str, words), "--out", "broken", "--no-report"]
    process = subprocess.Popen([*program, "--jobs", "1"], cwd=tmp_path, env=environment)
    eventually(lambda: any((tmp_path / "broken").rglob("*.parquet")) or process.poll() is not None, 60)
    process.kill()
    process.wait()
    done = freshkeeper(tmp_path, *words, "--out", "broken", "--no-report", "--resume", environment=environment)
    assert done.returncode == 0, done.stderr
    broken, unbroken = (journal.read(tmp_path / name, "refreshes") for name in ("broken", "unbroken"))
    assert choices_of(broken) == choices_of(unbroken) != []
