"""`explain` of a run that keeps a state says which entries it has learned to change by a clock."""

import json
from pathlib import Path

import pytest
from calls import Call

E = "http://example.org/"
SECONDS, PERIOD = 500, 20
QUERY = f"""PREFIX : <{E}> REGISTER RSTREAM :out AS SELECT ?topic ?n
FROM NAMED WINDOW :w ON :posts [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
RUN = f"""
query: query.rspql
streams: {{"{E}posts": posts.nq}}
sources:
  "{E}blog": {{data: blog.ttl, changes: changes.nq, volatile: ["{E}followers"]}}
budget: 1
policy: lru
state: state
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Six users whose followers change every twenty seconds, each at a second of its own."""
    (tmp_path / "query.rspql").write_text(QUERY)
    (tmp_path / "run.yaml").write_text(RUN)
    posts = [f"{1000 * s}\t<{E}p{s}> <{E}topic> <{E}jazz> ." for s in range(1, SECONDS)]
    (tmp_path / "posts.nq").write_text("\n".join(posts) + "\n")
    blog = [f"<{E}jazz> <{E}discussedBy> <{E}u{n}> . <{E}u{n}> <{E}followers> 0 ." for n in range(6)]
    (tmp_path / "blog.ttl").write_text("\n".join(blog))
    changes = [
        f'{1000 * s - 500}\t<{E}u{n}> <{E}followers> "{s}"^^<http://www.w3.org/2001/XMLSchema#integer> .'
        for s in range(1, SECONDS)
        for n in range(6)
        if (s + 2 * n) % PERIOD == 0
    ]
    (tmp_path / "changes.nq").write_text("\n".join(changes) + "\n")
    return tmp_path


@pytest.mark.slow
def test_explain_says_which_entries_are_regular_and_their_period(call: Call, place: Path) -> None:
    code, before, _ = call("explain", "run.yaml")
    assert code == 0
    assert "by a clock" not in before
    assert call("run", "run.yaml")[0] == 0
    code, said, _ = call("explain", "run.yaml")
    assert code == 0
    assert f"<{E}blog>: 6 entries appear to change by a clock" in said
    assert f"     <{E}u3> every " in said
    code, said, _ = call("explain", "run.yaml", "--json")
    found = json.loads(said)["regular"][f"{E}blog"]
    assert {entry["entry"] for entry in found} == {f"<{E}u{n}>" for n in range(6)}
    assert all(15_000 < entry["period_ms"] < 27_000 and entry["probability"] > 0.5 for entry in found)
