"""serve-fragments and follow as they are called."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calls import Call
from fragment_sites import FragmentSite, Pages
from pyoxigraph import Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.annotated.annotated_data import AnnotatedData
from freshkeeper.maintenance.sources.fragments.annotation_style import TimedTriple

E = "http://e/"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[FragmentSite]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    now = int(time.time() * 1000)
    train, delay = NamedNode(f"{E}t"), NamedNode(f"{E}delay")
    held = [TimedTriple(Triple(train, delay, Literal(n)), now + 400 * n, now + 400 * (n + 1)) for n in range(200)]
    made = FragmentSite(AnnotatedData([Quad(train, NamedNode(f"{E}sign"), Literal("Ghent"))], held))
    yield made
    made.stop()


@pytest.fixture
def pages() -> Iterator[Callable[..., Pages]]:
    made = []

    def make(said: Callable[..., Any | tuple[int, dict[str, str], bytes]]) -> Pages:
        made.append(Pages(said))
        return made[-1]

    yield make
    for site in made:
        site.stop()


def test_follow_delivers_lines_that_hold_and_asks_again_when_they_expire(call: Call, site: FragmentSite) -> None:
    query = f"SELECT * {{ ?t <{E}sign> ?s . ?t <{E}delay> ?d }}"
    code, out, err = call("follow", query, "--source", site.url, "--times", "3", "--skew", "50ms")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0, err
    assert 1 <= len(lines) <= 3
    for line in lines:
        assert line["t"] < line["until"]
        assert line["fresh"] == 1.0
        assert [answer["s"]["value"] for answer in line["answers"]] == ["Ghent"]
    assert sum("sign" in target for target in site.targets) == 1


def test_follow_explains_its_split(call: Call, site: FragmentSite) -> None:
    code, out, _ = call(
        "follow", f"SELECT * {{ ?t <{E}sign> ?s . ?t <{E}delay> ?d }}", "--source", site.url, "--explain"
    )
    assert code == 0
    assert f"dynamic, asked again when they expire: <{E}delay>" in out
    assert f"static, asked for once: <{E}sign>" in out
    assert "GRAPH ?freshkeeper_mark_0" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--speaking", "loud"], "--speaking loud: choose one of graph"),
        (["--operator", "x"], "RSTREAM"),
        (["--skew", "soon"], "--skew"),
        (["--dynamic", "delay"], "write IRIs in full"),
    ],
)
def test_what_is_wrong_with_a_follow_is_one_line(words: list[str], said: str, call: Call) -> None:
    code, _, err = call("follow", "SELECT * { ?s <a:p> ?o }", "--source", "http://127.0.0.1:1/", *words)
    assert code != 0
    assert said in err


def test_a_source_that_is_not_there_is_one_line(call: Call) -> None:
    code, _, err = call("follow", "SELECT * { ?s <a:p> ?o }", "--source", "http://127.0.0.1:1/")
    assert code != 0
    assert "Connection refused" in err


@pytest.mark.slow
def test_serve_fragments_says_where_it_serves_and_ends_when_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "d.nt").write_text(f"<{E}s> <{E}p> <{E}o> .\n")
    (tmp_path / "e.tsv").write_text(f"1\t600000\t<{E}s> <{E}n> <{E}o> .\n")
    command = [sys.executable, "-m", "freshkeeper", "serve-fragments", "d.nt", "--port", "0"]
    more = ["--elements", "e.tsv", "--from-now"]
    process = subprocess.Popen([*command, *more], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "serving 1 quads at http://127.0.0.1:" in line
    process.terminate()
    assert process.wait(30) in (0, 130)
    process.stderr.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.nt"], "there is no file"),
        (["d.nt", "--path", "x"], "begins with a slash"),
        (["d.nt", "--elements", "bad.tsv"], "bad.tsv, line 1"),
        (["d.nt", "--elements", "e.tsv", "--timing", "x"], "--timing x"),
        (["d.nt", "--elements", "e.tsv", "--history"], "--timing interval"),
        (["d.nt", "--live", "e.tsv"], "write -, follow:FILE"),
        (["d.nt", "--live", "-", "--notice", "x"], "--notice"),
        (["d.nt", "--elements", "e.tsv", "--speaking", "implicit", "--port", "0"], "name a --port"),
    ],
)
def test_what_is_wrong_with_serving_is_one_line(words: list[str], said: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "d.nt").write_text(f"<{E}s> <{E}p> <{E}o> .\n")
    (tmp_path / "bad.tsv").write_text("x\n")
    (tmp_path / "e.tsv").write_text("")
    code, _, err = call("serve-fragments", *words)
    assert code != 0
    assert said in err


def test_run_answers_a_query_with_a_service_over_fragments_once_and_points_to_follow(
    call: Call, site: FragmentSite
) -> None:
    once = f"SELECT * {{ SERVICE <{E}t> {{ ?t <{E}sign> ?s }} }}"
    _, out, err = call("run", once, "--fetch", "always", "--source", f"{E}t=fragments:{site.url}")
    assert json.loads(out)["answers"][0]["bindings"]["s"]["value"] == "Ghent"
    assert "`freshkeeper follow` answers one over fragments" in err


def test_what_a_source_echoes_of_who_asks_is_not_shown(
    call: Call, tmp_path: Path, pages: Callable[..., Pages], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINS_TOKEN", "s3cret-token")
    server = pages(lambda target: (403, {"Content-Type": "text/plain"}, b"s3cret-token may not read this"))
    (tmp_path / "s.yaml").write_text(f"fragments: {server.url}\nauth: {{bearer: TRAINS_TOKEN}}\n")
    code, _, err = call("follow", "SELECT * { ?s <a:p> ?o }", "--source", "s.yaml")
    assert code != 0
    assert "may not read this" in err
    assert "s3cret-token" not in err


def test_run_follows_a_query_without_windows_over_fragments_alone(call: Call, site: FragmentSite) -> None:
    given = ["--source", f"{E}t=fragments:{site.url}"]
    code, out, err = call("run", f"SELECT * {{ ?t <{E}sign> ?s }}", *given)  # which never changes, so it ends
    assert code == 0, err
    (line,) = (json.loads(each) for each in out.splitlines())
    assert line["answers"] == [{"s": {"type": "literal", "value": "Ghent"}, "t": {"type": "uri", "value": f"{E}t"}}]
    code, _, err = call("run", f"SELECT * {{ ?t <{E}sign> ?s GRAPH ?g {{ ?t ?p ?o }} }}", *given)
    assert code != 0
    assert "not part of the data" in err
    code, _, err = call("run", f"SELECT * {{ ?t <{E}sign> ?s }}", *given, "--budget", "50", "--bank", "50")
    assert code == 0
    assert "cost units in 1 evaluations" in err
