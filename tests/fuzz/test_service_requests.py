"""Hostile requests to a service: schemathesis makes them from its OpenAPI document, good ones and bad ones.

FUZZ_REQUESTS says how many, FUZZ_FIRST which seed is the first; `make fuzz` sends 10,000.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving import POSTS, REACH, TOPICS, E, posts

REQUESTS, FIRST = int(os.environ.get("FUZZ_REQUESTS", "300")), int(os.environ.get("FUZZ_FIRST", "0"))
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
NAMES = {
    "name": ["topics", "reach", POSTS, f"{E}blog"],
    "address": [f"{E}blog/{E}jazz"],
    "table": ["evaluations"],
    "key": ["7"],
}
STREAMS = ("text/event-stream", "application/x-ndjson")
NO_HTTP = b"Invalid HTTP request received."
"""What uvicorn says to bytes that are no HTTP, as headers with control characters: no application has seen them."""
EACH = 10
"""Requests for each operation of one kind, before the next one's turn."""
GROWTH = 1.25
"""How much larger the process may be at the end than after the first third."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[str, int, Path]]:
    (tmp_path / "blog.ttl").write_text(f"@prefix : <{E}> . :jazz :discussedBy :ann . :ann :followers 10 .")
    blog = {"data": "blog.ttl", "volatile": f"{E}followers"}
    config = {"streams": [POSTS], "sources": {f"{E}blog": blog}, "journal": "journal", "largest_body": 100_000}
    (tmp_path / "serve.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "freshkeeper", "serve", str(tmp_path / "serve.yaml"), "--listen", "0"]
    told = tmp_path / "told"
    with told.open("w") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            while not (found := re.search(r"serving at (http://\S+)", told.read_text())):
                assert process.poll() is None, told.read_text()
            yield found[1], process.pid, told
        finally:
            process.terminate()
            process.wait()


def resident(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])  # type: ignore[index]


class Hostile:
    """Sends cases, and says what is wrong with what comes back."""

    def __init__(self, url: str) -> None:
        self.url, self.count, self.seen, self.session = url, 0, Counter[int](), requests.Session()

    def lay_out(self) -> None:
        """What makes requests go deeper: queries, and something in their windows."""
        with httpx.Client(base_url=self.url, timeout=60) as client:
            for name, text in (("topics", TOPICS), ("reach", REACH)):
                client.post("/queries", json={"name": name, "query": text})
            client.post(f"/streams/{POSTS}", content=posts(500, 1500), headers={"Content-Type": "text/plain"})

    def send(self, case: Case[Any]) -> None:
        if self.count % 100 == 0:
            self.lay_out()
        self.count += 1
        response = self.session.request(**case.as_transport_kwargs(base_url=self.url), stream=True, timeout=30)
        self.seen[response.status_code] += 1
        kind = response.headers.get("content-type", "").partition(";")[0]
        if kind in STREAMS and response.status_code == 200:
            response.close()
            return
        assert response.status_code < 500, (case.as_curl_command(), response.content)
        assert b"Traceback" not in response.content
        if response.content == NO_HTTP:
            assert response.status_code == 400
            return
        if response.status_code >= 400:
            told: dict[str, object] = json.loads(response.content)
            assert kind == "application/problem+json", case.as_curl_command()
            assert told["status"] == response.status_code
            assert told["detail"]
        case.validate_response(response, checks=CHECKS)


def known(case: Case[Any], draw: st.DataObject) -> Case[Any]:
    """Half of them speak of what is there."""
    for name in case.path_parameters or {}:
        if draw.draw(st.booleans()):
            case.path_parameters[name] = draw.draw(st.sampled_from(NAMES[name]))
    return case


@pytest.mark.slow
def test_no_request_is_too_much(service: tuple[str, int, Path]) -> None:
    url, pid, told = service
    document = httpx.get(f"{url}/openapi.json").json()
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert operations
    hostile = Hostile(url)
    sizes: list[int] = []
    while hostile.count < REQUESTS:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            for operation in operations:
                run(hostile, operation.as_strategy(mode), EACH, FIRST + len(sizes))
        sizes.append(resident(pid))
    assert sizes[-1] < sizes[len(sizes) // 3] * GROWTH, sizes
    assert "Traceback" not in told.read_text()
    print(f"{hostile.count} requests, {dict(sorted(hostile.seen.items()))}, {sizes} kB")


def run(hostile: Hostile, strategy: st.SearchStrategy[Case[Any]], count: int, number: int) -> None:
    quiet = [
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ]

    @seed(number)
    @settings(max_examples=count, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=quiet)
    @given(strategy, st.data())
    def send(case: Case[Any], draw: st.DataObject) -> None:
        hostile.send(known(case, draw))

    with suppress(Unsatisfiable):  # what takes nothing has no bad requests
        send()
