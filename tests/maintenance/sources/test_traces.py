"""Spans as a collector gets them: a real OTLP receiver on this machine."""

import asyncio
import gzip
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from servers import MakeProxy
from serving import POSTS, posts

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.observe.traces import TracedRequests, Traces
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

REACH = """PREFIX : <http://example.org/> REGISTER RSTREAM :reach AS SELECT ?topic ?n
FROM NAMED WINDOW :w ON :posts [RANGE PT4S STEP PT1S]
{ WINDOW :w { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n } }"""


@pytest.fixture
def collector() -> Iterator[tuple[str, list[object]]]:
    """An address, and the spans that came."""
    came = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    came.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: str) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", came
        server.shutdown()
        thread.join()


def told(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_an_evaluation_and_its_requests_are_one_trace(
    collector: tuple[str, list[Any]], proxied: MakeProxy, tmp_path: Path
) -> None:
    address, came = collector
    (tmp_path / "posts.nq").write_text(posts(500, 1500, 2500))
    blog = {"sparql": proxied(lambda _: "").url, "volatile": "http://example.org/followers", "retries": 0}
    config = {"query": REACH, "streams": {POSTS: str(tmp_path / "posts.nq")}, "traces": address}
    session = Session(config_of({**config, "sources": {"http://example.org/blog": blog}}), parse(REACH))
    assert [result.t for result in session.results()] == [1000, 2000]
    evaluations = {told(one)["freshkeeper.instant"]: one for one in came if one.name == "evaluate"}
    requests = [one for one in came if one.name == "request http://example.org/blog"]
    assert sorted(evaluations) == [1000, 2000]
    assert requests
    for one in requests:
        whose = evaluations[told(one)["freshkeeper.instant"]]
        assert (one.trace_id, one.parent_span_id) == (whose.trace_id, whose.span_id)
        assert whose.parent_span_id == b""
        assert whose.start_time_unix_nano <= one.start_time_unix_nano <= one.end_time_unix_nano
    assert len({one.trace_id for one in evaluations.values()}) == 2


async def _answer(
    scope: dict[str, object], receive: object, send: Callable[[dict[str, object]], Awaitable[None]]
) -> None:
    await send({"type": "http.response.start", "status": 503, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_request_to_a_service_is_part_of_its_callers_trace(collector: tuple[str, list[Any]]) -> None:
    address, came = collector
    traces = Traces(address)
    headers = [(b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    scope = {"type": "http", "method": "GET", "path": "/queries/reach", "headers": headers}

    async def sent(_: Mapping[str, bytes | int | list[object] | str]) -> None:
        pass

    asyncio.run(TracedRequests(_answer, traces)(scope, None, sent))
    traces.close()
    (span,) = came
    assert (span.name, told(span)["http.response.status_code"]) == ("GET queries", 503)
    assert span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert span.status.code == 2


def test_what_is_no_collector_is_said() -> None:
    with pytest.raises(ConfigError, match="'localhost:4318' is no collector: write http://host:4318"):
        Traces("localhost:4318")
