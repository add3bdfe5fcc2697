"""A run's YAML: every key is in the reference; options win over it; a mistake is one line that says what is right."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from signal import Signals

import pytest
import yaml
from commands import freshkeeper

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.runtime.run_config import RunConfig, config_of, read_config, run_reference
from freshkeeper.simulator.demo import CONFIG

CONFIGS = Path(__file__).parents[3] / "configs"
E = "http://example.org/"
QUERY = f"""PREFIX : <{E}>
SELECT ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
{{ WINDOW :w {{ ?post :by ?user }} SERVICE :blog {{ ?user :followers ?n }} SERVICE :shop {{ ?user :price ?m }} }}"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    users = range(12)
    (tmp_path / "q.rspql").write_text(QUERY)
    (tmp_path / "s.nt").write_text(
        "".join(f"{t * 1000}\t<{E}p{t}{u}> <{E}by> <{E}u{u}> .\n" for t in range(1, 9) for u in users)
    )
    for name, predicate in (("blog", "followers"), ("shop", "price")):
        (tmp_path / f"{name}.nt").write_text("".join(f"<{E}u{u}> <{E}{predicate}> {u} .\n" for u in users))
    (tmp_path / "blog.ttl").write_text((tmp_path / "blog.nt").read_text())
    (tmp_path / "shop.ttl").write_text((tmp_path / "shop.nt").read_text())
    config = {
        "query": "q.rspql",
        "streams": {f"{E}s": "s.nt"},
        "sources": {
            f"{E}blog": {"data": "blog.ttl", "volatile": f"{E}followers"},
            f"{E}shop": {"data": "shop.ttl", "volatile": f"{E}price"},
        },
        "budget": 6,
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def spent(journal: Path) -> dict[str, list[float]]:
    import pyarrow.parquet as pq

    rows = pq.read_table(journal / "evaluations.parquet").to_pylist()
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["setting"], []).append(row["spent"])
    return found


def test_the_reference_has_every_key_with_its_default() -> None:
    written = (CONFIGS / "run-reference.yaml").read_text()
    assert written == run_reference()
    assert config_of(yaml.safe_load(written)) == RunConfig(query="reach.rspql")


def test_the_config_of_the_demonstration_is_what_the_demonstration_writes() -> None:
    assert (CONFIGS / "demo.yaml").read_text() == CONFIG


def test_paths_are_beside_the_config_and_addresses_stay(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "query: 'SELECT * { }'\nstreams: {a: s.nt, b: '-', c: 'tcp://h:1', d: 'follow:in'}\nstate: kept\njournal: ''\n"
    )
    config = read_config(tmp_path / "run.yaml", {})
    assert config.query == "SELECT * { }"
    assert config.streams == {"a": f"{tmp_path}/s.nt", "b": "-", "c": "tcp://h:1", "d": f"follow:{tmp_path}/in"}
    assert (config.state, config.journal) == (tmp_path / "kept", None)


@pytest.mark.slow
def test_a_run_from_a_config_with_options_that_win(place: Path) -> None:
    done = freshkeeper(place, "run", "run.yaml", "--budget", "4", "--journal", "j")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 8
    assert {name: max(each) for name, each in spent(place / "j").items()} == {f"{E}blog": 4, f"{E}shop": 4}


@pytest.mark.slow
def test_no_delay_can_be_said_in_so_many_words(place: Path) -> None:
    assert config_of({"query": "q", "delay": "PT0S"}).delay == 0
    done = freshkeeper(place, "run", "run.yaml", "--delay", "0", "--gap", "1h")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "first"),
    [
        pytest.param("lru", (4, 2), id="its scores are no answers, so weights say what is whose"),
        pytest.param("plan", (6, 0), id="an answer of the blog counts twice"),
    ],
)
def test_a_shared_budget_goes_where_it_brings_most_and_is_never_exceeded(
    place: Path, policy: str, first: tuple[int, int]
) -> None:
    options = ("--shared", "--weight", f"{E}blog=2", "--policy", policy, "--journal", "j")
    done = freshkeeper(place, "run", "run.yaml", *options)
    assert done.returncode == 0, done.stderr
    blog, shop = spent(place / "j").values()
    assert (blog[0], shop[0]) == first
    assert all(a + b <= 6 for a, b in zip(blog, shop, strict=True))


@pytest.mark.slow
def test_audits_logs_and_metrics_of_a_run(place: Path) -> None:
    done = freshkeeper(
        place, "run", "run.yaml", "--audit", "0.5", "--log", "debug", "--metrics", ":0", "--journal", "j"
    )
    assert done.returncode == 0, done.stderr
    first, *evaluations, last = map(json.loads, done.stderr.splitlines())
    assert re.fullmatch(r"metrics at http://127\.0\.0\.1:\d+/metrics", first["said"])
    assert {line["event"] for line in evaluations} == {"evaluation"}
    assert re.match(r"\d+ answers were given without what", last["said"])
    assert (place / "j" / "audits.parquet").exists()


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        ({"query": "q", "bugdet": 3}, "there is no key 'bugdet'; did you mean 'budget'?"),
        ({}, "query is missing"),
        ({"queries": {}}, "queries: there are none"),
        ({"templates": {}}, "templates: there are none"),
        ({"query": "q", "budget": -1}, "budget: it must be greater than or equal to 0, not -1"),
        ({"query": "q", "format": "xml"}, "format: there are: csv, ndjson, nquads, sparql-json"),
        ({"query": "q", "dialect": "csparq"}, "dialect: did you mean 'csparql'?"),
        ({"query": "q", "weights": {"a": 1}}, "weights are for a shared budget: say shared: true"),
        ({"query": "q", "sources": {"http://a": "f"}, "volatile": {"http://b": "p"}},
         "<http://b> is no source; did you mean 'http://a'?"),
        ({"query": "q", "sources": {"http://a": {"sparql": "http://h/", "batch": 0}}},
         "sources.http://a.batch: it must be greater than or equal to 1, not 0"),
        ({"query": "q", "edges": "new"}, "edges: it must be 'kept' or 'refreshed', not 'new'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_what_is_right(plain: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(plain)
    assert str(caught.value) == complaint


@pytest.mark.slow
def test_a_mistake_in_a_file_names_the_file(place: Path) -> None:
    (place / "run.yaml").write_text("query: q.rspql\nspeed: [1]\n")
    done = freshkeeper(place, "run", "run.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("freshkeeper: run.yaml: speed: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--fetch", "always", "--audit", "0.1"), "--audit checks answers of a view, and --fetch always has none"),
        (("--volatile", "followers"), "--volatile followers: write it as IRI=P,P, for example http://"),
        (("--weight", "blog"), "--weight blog: write it as IRI=N, for example http://"),
        (
            ("--weight", f"{E}blog=much"),
            "run.yaml: weights.http://example.org/blog: it must be a valid number, not 'much'",
        ),
        (("--delay", "5q"), "run.yaml: delay: q in 5q is no unit of time"),
        (("--gap", "1 fortnight"), "run.yaml: gap: "),
        (("--journal", "/proc/none"), "/proc/none cannot be written: "),
    ],
)
def test_a_mistake_in_an_option_is_one_line(options: tuple[str, ...], complaint: str, place: Path) -> None:
    done = freshkeeper(place, "run", "run.yaml", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"freshkeeper: {complaint}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "longest", "complaint"),
    [
        (("--journal", "j"), 4_400, "j/evaluations.parquet cannot be written: File too large"),
        (("--state", "s", "--journal", "j"), 200_000, "--state s cannot be written: disk I/O error"),
    ],
)
def test_a_full_disk_is_one_line_and_the_state_goes_on_from_there(
    options: tuple[str, ...], longest: int, complaint: str, place: Path
) -> None:
    done = freshkeeper(place, "run", "run.yaml", *options, longest=longest)
    assert (done.returncode, done.stderr) == (2, f"freshkeeper: {complaint}\n")
    again = freshkeeper(place, "run", "run.yaml", *options)
    assert again.returncode == 0
    assert re.fullmatch(r"(\d+ answers were given without .*\n)?", again.stderr)
    lines = dict.fromkeys(json.loads(line)["t"] for line in (done.stdout + again.stdout).splitlines())
    assert list(lines) == [1000 * t for t in range(1, 9)]


@pytest.mark.slow
@pytest.mark.parametrize(("by", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_control_c_and_a_service_manager_end_a_run_with_one_line_and_its_journal(
    by: Signals, status: int, place: Path
) -> None:
    command = [sys.executable, "-m", "freshkeeper", "run", "run.yaml", "--speed", "1x", "--journal", "j"]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["t"] == 1000
        running.send_signal(by)
        _, said = running.communicate(timeout=240)
    said_so = f"freshkeeper: stopped by {by.name}; what is finished is kept\n"
    assert (running.returncode, said) == (status, said_so)
    assert spent(place / "j")[f"{E}blog"][0] == 6


@pytest.mark.slow
def test_audits_and_edges_that_change_do_not_go_together(place: Path) -> None:
    (place / "q.rspql").write_text(QUERY.replace("?user :followers", "?user :knows ?other . ?other :followers"))
    done = freshkeeper(place, "run", "run.yaml", "--audit", "0.1", "--edges", "refreshed")
    assert done.returncode == 2
    assert "audits cannot check answers whose edges are refreshed" in done.stderr


@pytest.mark.parametrize("key", ["int", "str", "list[x]", "function-x", "SourceConfig"])
def test_an_unknown_key_is_told_whatever_it_is_called(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^there is no key {re.escape(repr(key))}"):
        config_of({"query": QUERY, key: 1})
    with pytest.raises(ConfigError, match=rf"there is no key {re.escape(repr(f'sources.{E}x.{key}'))}"):
        config_of({"query": QUERY, "sources": {f"{E}x": {"sparql": "http://localhost/", key: 1}}})


@pytest.mark.slow
def test_beside_a_log_every_line_of_standard_error_is_json_whatever_happens(place: Path) -> None:
    command = [sys.executable, "-m", "freshkeeper", "run", "run.yaml", "--log", "debug", "--metrics", ":0"]
    with subprocess.Popen(
        [*command, "--speed", "1x"], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=240)
    lines = [json.loads(line) for line in said.splitlines()]
    assert {"evaluation", "news", "error"} <= {line["event"] for line in lines}
    assert lines[-1]["said"] == "stopped by SIGTERM; what is finished is kept"
