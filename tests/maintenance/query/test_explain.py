"""explain as data: JSON-ready, with the split where the volatile predicates are known."""

import json
from typing import Any

import pytest

from freshkeeper.maintenance.query.explain import explain, explain_text
from freshkeeper.maintenance.query.parser import parse

TEXT = (
    "PREFIX : <http://e/> REGISTER RSTREAM :out AS SELECT ?n FROM :g FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S] "
    "{ WINDOW :w { ?p :topic ?t } SERVICE :b { ?t :by ?u . ?u :n ?n } }"
)


@pytest.fixture(scope="module")
def data() -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(explain(parse(TEXT), {"http://e/b": {"http://e/n"}})))
    return found


def test_the_quadruple(data: dict[str, Any]) -> None:
    assert (data["QF"], data["R2S"], data["output"]) == ("SELECT", "RSTREAM", "http://e/out")
    assert data["ET"] == {"report": ["ON_WINDOW_CLOSE"], "every_ms": None, "when": "whenever a window closes"}
    assert data["SDS"]["default_graphs"] == ["http://e/g"]
    assert data["SDS"]["windows"] == [
        {"name": "http://e/w", "stream": "http://e/s", "named": True, "kind": "time", "range": 4000, "step": 1000,
         "t0_ms": None, "lag_ms": 0, "closure": "left-open", "variables": ["p", "t"]}
    ]  # fmt: skip
    assert "GRAPH :w { ?p :topic ?t }" in data["SE"]


def test_the_split(data: dict[str, Any]) -> None:
    parts = data["services"][0]["split"]
    assert {name: parts[name] for name in ("SN", "SR", "key", "values")} == {
        "SN": ["t"], "SR": ["u", "n"], "key": ["u"], "values": ["n"],
    }  # fmt: skip
    assert parts["refresh_query"].endswith("SELECT ?u ?n WHERE { VALUES ?u { ... } ?u :n ?n }")


def test_a_split_that_cannot_be_made_is_told_and_not_raised() -> None:
    volatile = {"http://e/b": ["http://e/other"]}
    service = explain(parse(TEXT), volatile)["services"]
    assert isinstance(service, list)
    assert service[0]["split"] is None
    assert "no volatile predicate" in service[0]["split_error"]
    assert "no split: SERVICE <http://e/b>: no volatile predicate" in explain_text(parse(TEXT), volatile)


def test_without_volatile_predicates_the_candidates_are_listed() -> None:
    text = explain_text(parse(TEXT))
    assert "not split: name the volatile predicates of this source, among" in text
    assert "<http://e/by>" in text
