"""What hosts do with a policy: settings from everywhere, failures that are told and counted, keys that are the same."""

import json
from pathlib import Path

import httpx
import pytest
from commands import freshkeeper
from run_files import PLAIN, RunFiles
from servers import eventually
from serving import REACH, Client, E, configured, posts, served

from freshkeeper.maintenance.base.errors import PolicyError
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.replay import replay_of
from freshkeeper.simulator.trace.trace import read_trace

FAILING = "own_policies:FailsLater(from_ms=3000)"
SAID = "the policy 'fails-later' (source http://example.org/blog, seed 0) raised ZeroDivisionError in select() at "


def words(place: Path, *more: object) -> list[object]:
    """The command of a run over the files."""
    RunFiles(place)
    (place / "out.rspql").write_text(PLAIN)
    sources = ["--source", f"{E}blog=blog.yaml", "--stream", f"{E}posts=posts.nq"]
    return ["run", "out.rspql", *sources, "--budget", 3, *more]


@pytest.mark.slow
def test_a_run_takes_a_policy_with_settings_and_ends_with_its_error(tmp_path: Path) -> None:
    done = freshkeeper(tmp_path, *words(tmp_path, "--policy", "plan(windows=2, expect=false)"))
    assert done.returncode == 0, done.stderr
    done = freshkeeper(tmp_path, *words(tmp_path, "--policy", "plan(window=2)"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "the policy 'plan' has no setting 'window'; did you mean 'windows'?" in done.stderr
    assert "its settings are expect=true, windows=3" in done.stderr


def test_a_failing_policy_ends_a_run_and_is_named(tmp_path: Path) -> None:
    lines = []
    with pytest.raises(PolicyError) as caught:
        lines += RunFiles(tmp_path).lines(policy=FAILING)
    assert str(caught.value).startswith(SAID)
    assert "own_policies.py:" in str(caught.value)


def test_a_run_that_skips_errors_answers_from_the_view_and_counts_them(tmp_path: Path) -> None:
    said: list[str] = []
    files = RunFiles(tmp_path)
    session = files.session(policy=FAILING, on_policy_error="skip")
    session.log = said.append
    lines = list(files.run(session))
    assert [line["t"] for line in lines] == [1000 * k for k in range(2, 24)]
    assert lines[-1]["answers"]
    assert session.failed_rounds == 21
    assert [line for line in said if line.startswith(SAID)] == said[:1]
    assert "the policy failed in 21 evaluations, which refreshed nothing" in session.summary()


def test_a_service_outlives_a_failing_policy_and_counts_its_rounds(tmp_path: Path) -> None:
    with served(configured(tmp_path, policy={"name": "own_policies:FailsLater", "from_ms": 3000})) as client:
        client.register("reach", REACH)
        client.push(posts(*range(500, 8000, 500)))
        assert eventually(lambda: client.answered("reach") == 7000)
        assert answers_after(client, 6000)
        (view,) = client.get("/status").json()["views"]
        assert (view["policy"], view["failed_rounds"]) == ("fails-later", 5)
        assert view["last_error"].startswith(SAID)
        assert client.get("/queries/reach").json()["state"] == "running"
        metrics = httpx.get(f"{client.base_url}/metrics").text
        assert f'freshkeeper_failed_rounds_total{{source="reach {E}blog"}} 5.0' in metrics


def answers_after(client: Client, t: int) -> list[object]:
    """The answers of the evaluation after an instant."""
    with client.stream("GET", "/queries/reach/answers", params={"after": t}) as lines:
        found: list[object] = json.loads(next(line for line in lines.iter_lines() if "answers" in line))["answers"]
    return found


def test_keys_are_the_same_in_a_run_a_simulation_and_a_replay_of_its_journal(tmp_path: Path) -> None:
    seen = {name: tmp_path / name for name in ("run", "replay", "simulate")}
    files = RunFiles(tmp_path)
    files.lines(policy=f"own_policies:SeesKeys(file='{seen['run']}')", journal=tmp_path / "journal")
    policies = f"own_policies:SeesKeys(file='{seen['replay']}')"
    changes = {"policies": policies, "knowledge": "learned"}
    simulate(replay_of(tmp_path / "journal", changes, tmp_path / "trace").experiment, tmp_path / "again")
    found = {name: set(seen[name].read_text().splitlines()) for name in ("run", "replay")}
    copies = {f"round <{E}u{n}>" for n in range(9)}
    assert copies <= found["run"]
    assert {line for line in found["replay"] if line.startswith("round")} <= found["run"]
    assert copies <= found["replay"]
    policies = f"own_policies:SeesKeys(file='{seen['simulate']}')"
    simulate(resolve({"trace": str(tmp_path / "trace"), "seeds": 1, "policies": policies}), tmp_path / "simulated")
    labels = set(read_trace(tmp_path / "trace").sr_labels.tolist())
    assert {line.removeprefix("round ") for line in seen["simulate"].read_text().splitlines()} >= labels
