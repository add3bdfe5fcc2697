"""Streams of every kind give the same elements."""

import asyncio
import io
import json
import socket
import struct
import threading
from asyncio import Task
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest
from feeds import events

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.asynchronous import run_async
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.streams.batch import Elements, Stream
from freshkeeper.maintenance.streams.live.feed import OnLoss
from freshkeeper.maintenance.streams.opening import Directory, Reception, open_stream
from freshkeeper.maintenance.streams.pace import Pace, Paced, speed_of
from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors, StreamError
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE, TimedLines

TRIG = """PREFIX : <http://e/> PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
:g2 prov:generatedAtTime "1970-01-01T00:00:02Z"^^xsd:dateTime . :g2 { :b :p :c . :b :p :d }
:g1 { :g1 prov:generatedAtTime "1970-01-01T00:00:01Z"^^xsd:dateTime . :a :p :b }
"""
MAPPING = """
data: {0}
time: at
prefixes: {{ex: "http://e/"}}
triples:
  - {{subject: "ex:ride/{{id}}", predicate: ex:distance, object: "{{km}}", datatype: xsd:double}}
  - {{subject: "ex:ride/{{id}}", predicate: ex:driver, iri: "ex:{{driver}}"}}
"""
ENDS = Reception(OnLoss.END)
DOUBLE = "^^<http://www.w3.org/2001/XMLSchema#double>"


def test_the_graphs_of_trig_and_jsonld_come_at_the_time_they_were_generated(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]]
) -> None:
    path = tmp_path / "cars.trig"
    path.write_text(TRIG + ":g1 prov:wasAttributedTo :sensor .")
    wanted = [(1000, "a b"), (2000, "b c"), (2000, "b d")]
    wanted = [(at, " ".join(f"<http://e/{name}>" for name in names.split())) for at, names in wanted]
    assert read(open_stream(str(path), ReadErrors())) == wanted
    quads = list(ox.parse(path=str(path)))
    ox.serialize(quads, tmp_path / "cars.jsonld", format=ox.RdfFormat.JSON_LD)
    assert sorted(read(open_stream(str(tmp_path / "cars.jsonld"), ReadErrors()))) == wanted


def test_a_graph_loses_nothing_but_the_triple_that_dates_it(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]]
) -> None:
    (tmp_path / "cars.trig").write_text(TRIG.replace(":a :p", ':b prov:generatedAtTime "long ago" . :a :p'))
    found = read(open_stream(str(tmp_path / "cars.trig"), ReadErrors()))
    assert sorted(found)[:2] == [(1000, "<http://e/a> <http://e/b>"), (1000, '<http://e/b> "long ago"')]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TRIG + ":g3 { :c :p :d . :d :p :e }", "graph <http://e/g3>: it has no prov:generatedAtTime"),
        (TRIG.replace("00:00:02Z", "soon"), "graph <http://e/g2>: 1970-01-01Tsoon is no instant"),
        (
            TRIG + ':g2 { :g2 prov:generatedAtTime "5" }',
            "graph <http://e/g2>: it has more than one prov:generatedAtTime",
        ),
        (TRIG + ":c :p :d .", "default graph: <http://e/c> <http://e/p> <http://e/d> is in no graph"),
        (TRIG + ':c prov:generatedAtTime "5" .', 'default graph: <http://e/c> <.*> "5" is in no graph and dates none'),
        (TRIG + ":g3 { :a :b", "line 4: Parser error"),
    ],
)
def test_what_has_no_time_in_a_document_is_told_once_with_its_place(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]], text: str, says: str
) -> None:
    (tmp_path / "cars.trig").write_text(text)
    with pytest.raises(StreamError, match=rf"cars\.trig, {says}"):
        read(open_stream(str(tmp_path / "cars.trig"), ReadErrors()))
    read_errors = ReadErrors(OnError.SKIP)
    kept = read(open_stream(str(tmp_path / "cars.trig"), read_errors))
    assert (read_errors.count, bool(kept)) == (1, "line" not in says)


@pytest.mark.parametrize("name", ["rides.csv", "rides.jsonl"])
def test_csv_and_json_lines_become_triples_by_a_mapping(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]], name: str
) -> None:
    (tmp_path / "rides.csv").write_text("at,id,km,driver\n1000,1,2.5,a b\n1970-01-01T00:00:02Z,2,3,\n")
    rows = [{"at": 1000, "id": 1, "km": 2.5, "driver": "a b"}, {"at": 2000, "id": 2, "km": 3}]
    (tmp_path / "rides.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "map.yaml").write_text(MAPPING.format(name))
    assert read(open_stream(str(tmp_path / "map.yaml"), ReadErrors())) == [
        (1000, f'<http://e/ride/1> "2.5"{DOUBLE}'),
        (1000, "<http://e/ride/1> <http://e/a%20b>"),
        (2000, f'<http://e/ride/2> "3"{DOUBLE}'),
    ]


def test_a_row_that_is_none_and_a_mapping_that_is_none_are_errors(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]]
) -> None:
    (tmp_path / "rides.csv").write_text("at,id,km,driver\n1000,1,2.5,a\nsoon,2,3,\n")
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.csv"))
    with pytest.raises(StreamError, match=r"rides.csv, line 3: soon is no instant"):
        read(open_stream(str(tmp_path / "map.yaml"), ReadErrors()))
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.csv").replace("time:", "tiem:"))
    with pytest.raises(ConfigError, match="unknown key tiem; did you mean 'time'"):
        open_stream(str(tmp_path / "map.yaml"), ReadErrors())


@pytest.mark.parametrize(
    ("name", "row", "says"),
    [
        ("rides.csv", "2000,2,3,bob,more", "the row has 5 columns, and the header has 4"),
        ("rides.jsonl", '{"at": 2000, "id": 2, "km": [1, 2]}', r"km is .* but one value is expected"),
        ("rides.jsonl", '{"at": {"ms": 5}, "id": 2, "km": 1}', r"at is .* but one value is expected"),
        ("rides.jsonl", '{"at": 2000, "id": 2, "km": NaN}', "no JSON: NaN is no number"),
        ("rides.jsonl", "[" * 100_000, "no JSON: "),
    ],
)
def test_a_row_with_more_than_the_mapping_can_say_is_told_with_its_line(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]], name: str, row: str, says: str
) -> None:
    head = "at,id,km,driver\n\n" if name == "rides.csv" else "\n\n"
    (tmp_path / name).write_text(f"{head}{row}\n")
    (tmp_path / "map.yaml").write_text(MAPPING.format(name))
    with pytest.raises(StreamError, match=rf"{name}, line 3: {says}"):
        read(open_stream(str(tmp_path / "map.yaml"), ReadErrors()))


def test_json_values_are_written_as_in_json_and_not_as_in_python(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]]
) -> None:
    numbers = ["true", "false", "1e400", "2.50", "12345678901234567890", "null", '""']
    rows = "".join(f'{{"at": {n}, "id": 1, "km": {written}}}\n' for n, written in enumerate(numbers))
    (tmp_path / "rides.jsonl").write_text(rows)
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.jsonl"))
    found = [text.split('"')[1] for _, text in read(open_stream(str(tmp_path / "map.yaml"), ReadErrors()))]
    assert found == numbers[:5]


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("predicate: ex:distance", 'predicate: "how far"', "the predicate how far is no IRI: Invalid IRI"),
        ("datatype: xsd:double", "datatype: double", "the datatype double is no IRI"),
        ("datatype: xsd:double", "language: plain_english", "the language plain_english is no language tag"),
        ('prefixes: {ex: "http://e/"}', "prefixes: //e/", "prefixes is '//e/', and prefixes are names with IRIs"),
    ],
)
def test_a_mapping_that_fits_no_row_is_one_error_before_any_is_read(
    tmp_path: Path, right: str, wrong: str, says: str
) -> None:
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.csv").replace(right, wrong))
    with pytest.raises(ConfigError, match=rf"map\.yaml: {says}"):
        open_stream(str(tmp_path / "map.yaml"), ReadErrors(OnError.SKIP))


def test_rows_that_are_no_objects_and_files_that_are_no_text_are_told(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]]
) -> None:
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.jsonl"))
    (tmp_path / "rides.jsonl").write_text('{"at": 1000, "id": 1, "km": 2.5}\n\n[1000]\n')
    with pytest.raises(StreamError, match=r"rides.jsonl, line 3: \[1000\] is no JSON object"):
        read(open_stream(str(tmp_path / "map.yaml"), ReadErrors()))
    (tmp_path / "rides.jsonl").write_bytes(b'{"at": "\xff"}')
    with pytest.raises(InputError, match=r"rides.jsonl is no table in UTF-8"):
        read(open_stream(str(tmp_path / "map.yaml"), ReadErrors()))


def test_a_directory_is_read_by_name_and_goes_on_with_files_that_come(
    tmp_path: Path, read: Callable[[Stream], list[tuple[int, str]]], three: str, expected: list[tuple[int, str]]
) -> None:
    first, second, third = three.splitlines(keepends=True)
    (tmp_path / "b.nq").write_text(second)
    (tmp_path / "a.nq").write_text(first)
    (tmp_path / ".c.nq").write_text("half a li")
    assert read(open_stream(str(tmp_path), ReadErrors())) == expected[:2]
    waits = iter([True, False])

    def wait() -> bool:
        (tmp_path / "c.nq").write_text(third)
        return next(waits)

    assert read(Directory(tmp_path, TimedLines.file, True, wait)) == expected


def test_a_tcp_source_is_read_to_its_end(
    read: Callable[[Stream], list[tuple[int, str]]], three: str, expected: list[tuple[int, str]]
) -> None:
    def send() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(three.encode()[:17])
            connection.sendall(three.encode()[17:])

    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send)
        sender.start()
        assert read(open_stream(f"tcp://127.0.0.1:{server.getsockname()[1]}", ReadErrors(), reception=ENDS)) == expected
        sender.join()


def test_a_connection_that_breaks_off_is_an_error_of_ours(
    read: Callable[[Stream], list[tuple[int, str]]], three: str
) -> None:
    def send() -> None:
        connection, _ = server.accept()
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send)
        sender.start()
        connection = socket.create_connection(server.getsockname())
        stream = TimedLines("tcp://there", lambda: connection.makefile("rb"), ReadErrors())
        connection.sendall(b"go")
        sender.join()
        with connection, pytest.raises(InputError, match=r"the stream tcp://there broke off: .*reset"):
            read(stream)


@pytest.fixture
def sending() -> Iterator[Callable[..., str]]:
    """An address that sends these bytes once, as what it is told to call them."""
    servers = []

    def made(body: bytes, kind: str | None = "text/event-stream; charset=utf-8") -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                if kind is not None:
                    self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: str) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        servers.append((server, serving))
        return f"http://127.0.0.1:{server.server_port}/"

    yield made
    for server, serving in servers:
        serving.join()
        server.server_close()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_server_sent_events_are_read_to_their_end(
    sending: Callable[..., str],
    read: Callable[[Stream], list[tuple[int, str]]],
    three: str,
    expected: list[tuple[int, str]],
    start: str,
    end: str,
) -> None:
    events = [f"data: {line}\n: comment\nevent: triple\n\n" for line in three.splitlines()]
    body = (start + "".join(events).replace("\n", end)).encode()
    assert read(open_stream(sending(body), ReadErrors(), reception=ENDS)) == expected


class Cut(io.BytesIO):
    """Bytes that come so many at a time."""

    def __init__(self, body: bytes, size: int) -> None:
        super().__init__(body)
        self.size = size

    def read1(self, _: int | None = -1, /) -> bytes:
        return self.read(self.size)


def test_events_are_the_same_wherever_their_bytes_are_cut(
    read: Callable[[Stream], list[tuple[int, str]]], three: str, expected: list[tuple[int, str]]
) -> None:
    body = ("\ufeff" + "".join(f"data:{line}\r\n\r\n" for line in three.splitlines())).encode()
    for size in (1, 2, 7, 50):
        assert read(events(Cut(body, size))) == expected


@pytest.mark.parametrize(("kind", "called"), [("text/html", "text/html"), (None, "nothing that has a type")])
def test_a_page_that_is_no_stream_of_events_is_one_error_and_no_empty_stream(
    sending: Callable[..., str], read: Callable[[Stream], list[tuple[int, str]]], kind: str | None, called: str
) -> None:
    with pytest.raises(InputError, match=rf"http://.*/ sends {called}, and events are text/event-stream"):
        read(open_stream(sending(b"<html>", kind), ReadErrors(OnError.SKIP)))


def test_an_event_without_an_end_is_an_error_and_not_read_for_ever(
    read: Callable[[Stream], list[tuple[int, str]]],
) -> None:
    source = io.BufferedReader(io.BytesIO(b"data: " + b"x" * 3 * LONGEST_LINE))
    with pytest.raises(InputError, match=f"a line of events is longer than {LONGEST_LINE} bytes"):
        read(events(source))


def test_an_address_without_a_port_and_a_file_of_no_kind_say_what_would_be_right(
    read: Callable[[Stream], list[tuple[int, str]]],
) -> None:
    with pytest.raises(ConfigError, match="write tcp://host:port"):
        read(open_stream("tcp://localhost", ReadErrors()))
    with pytest.raises(ConfigError, match=r"there is no stream cars\.xyz"):
        open_stream("cars.xyz", ReadErrors())


def test_a_pace_hands_elements_on_when_they_are_due() -> None:
    wall, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        wall[0] += seconds

    node = ox.NamedNode("http://e/x")
    stream = Elements([(at, ox.Triple(node, node, ox.Literal(at))) for at in (1000, 1000, 3000, 8000)])
    paced = Paced(stream, Pace(10, lambda: wall[0], sleep))
    assert [list(b.times) for b in paced.batches()] == [[1000, 1000], [3000], [8000]]
    assert slept == pytest.approx([0.2, 0.5])
    assert (speed_of("max"), speed_of("10x")) == (None, 10)
    with pytest.raises(ConfigError, match="write 1x, 10x or max"):
        speed_of("fast")


def test_async_iterables_feed_a_query_and_its_results_are_awaited() -> None:
    text = "SELECT ?n FROM WINDOW <http://e/w> ON <http://e/s> [RANGE PT2S STEP PT1S] { ?x ?y ?n }"
    node = ox.NamedNode("http://e/x")

    async def coming(times: list[int]) -> AsyncIterator[tuple[int, ox.Triple]]:
        for at in times:
            await asyncio.sleep(0)
            yield at, ox.Triple(node, node, ox.Literal(at))

    async def collect() -> list[tuple[int, int]]:
        streams = {"http://e/s": coming([1000, 2000, 4000])}
        return [(r.t, len(r.answers)) async for r in run_async(build(parse(text)), streams)]

    assert asyncio.run(collect()) == [(1000, 1), (2000, 2), (3000, 1), (4000, 1)]


def elements_at(*times: Any) -> list[tuple[Any, ox.Triple]]:
    """Elements of these times."""
    node = ox.NamedNode("http://e/x")
    return [(at, ox.Triple(node, node, ox.Literal(1))) for at in times]


async def awaited(
    elements: Sequence[ZeroDivisionError | tuple[object, ox.Triple]],
) -> AsyncIterator[tuple[object, ox.Triple]]:
    """The same, one by one; an exception among them is raised."""
    for element in elements:
        if isinstance(element, Exception):
            raise element
        yield element


@pytest.mark.parametrize("time", [1.5, -5, True, "1000", None])
def test_a_time_of_a_program_that_is_no_whole_number_of_milliseconds_is_an_error(time: float | str | None) -> None:
    says = rf"an element has the time {time!r}: give whole milliseconds"
    with pytest.raises(InputError, match=says):
        list(Elements(elements_at(1000, time)).batches())
    with pytest.raises(InputError, match=says):
        asyncio.run(answered(awaited(elements_at(1000, time))))
    assert [batch.times for batch in Elements(elements_at(np.int64(5))).batches()] == [[5]]


async def answered(*streams: AsyncIterable[tuple[Any, ox.Triple]]) -> list[int]:
    """The instants of a query over streams, and what came before one broke."""
    windows = "".join(f"FROM WINDOW <http://e/w{n}> ON <http://e/{n}> [RANGE PT2S] " for n in range(len(streams)))
    query = build(parse(f"SELECT ?n {windows} {{ ?x ?y ?n }}"))
    return [r.t async for r in run_async(query, {f"http://e/{n}": stream for n, stream in enumerate(streams)})]


def test_what_breaks_an_async_stream_is_what_its_caller_gets() -> None:
    async def endless() -> AsyncIterator[tuple[int, ox.Triple]]:
        n = 0
        while True:
            await asyncio.sleep(0)
            yield elements_at(n := n + 1)[0]

    async def collect() -> set[Task[Any]]:
        with pytest.raises(ZeroDivisionError, match="by us"):
            await answered(endless(), awaited([*elements_at(1), ZeroDivisionError("by us")]))
        return asyncio.all_tasks()

    assert len(asyncio.run(collect())) == 1


def test_async_streams_that_are_silent_or_have_ended_hold_nobody_back() -> None:
    text = """SELECT ?n FROM WINDOW <http://e/w> ON <http://e/s> [RANGE PT9S STEP PT1S]
    FROM WINDOW <http://e/v> ON <http://e/r> [RANGE PT9S STEP PT1S] { ?x ?y ?n }"""
    node = ox.NamedNode("http://e/x")

    async def collect(idle: float | None) -> list[tuple[int, int]]:
        answered = asyncio.Event()

        async def steady() -> AsyncIterator[tuple[int, ox.Triple]]:
            for at in (1000, 2000, 3000):
                yield at, ox.Triple(node, node, ox.Literal(at))
            await answered.wait()

        async def other() -> AsyncIterator[tuple[int, ox.Triple]]:
            yield 500, ox.Triple(node, node, ox.Literal(500))
            if idle:
                await answered.wait()

        found = []
        streams = {"http://e/s": steady(), "http://e/r": other()}
        async for result in run_async(build(parse(text)), streams, idle=idle):
            found.append((result.t, len(result.answers)))
            if result.t == 2000:
                answered.set()
        return found

    for idle in (None, 0.05):
        assert asyncio.run(collect(idle)) == [(1000, 2), (2000, 3), (3000, 4)]
