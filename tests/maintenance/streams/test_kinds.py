"""Streams of every kind give the same elements."""

import asyncio
import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyoxigraph as ox
import pytest

from maintenance.engine.asynchronous import run_async
from maintenance.engine.continuous import ContinuousQuery
from maintenance.query import parse
from maintenance.streams.batch import Elements
from maintenance.streams.errors import StreamError
from maintenance.streams.lines import Mistakes, TimedLines
from maintenance.streams.live import Directory
from maintenance.streams.opening import open_stream
from maintenance.streams.pace import Pace, Paced, speed_of
from policies.errors import ConfigError, InputError

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
DOUBLE = "^^<http://www.w3.org/2001/XMLSchema#double>"


def test_the_graphs_of_trig_and_jsonld_come_at_the_time_they_were_generated(tmp_path, read):
    path = tmp_path / "cars.trig"
    path.write_text(TRIG)
    wanted = [(1000, "a b"), (2000, "b c"), (2000, "b d")]
    wanted = [(at, " ".join(f"<http://e/{name}>" for name in names.split())) for at, names in wanted]
    assert read(open_stream(str(path), Mistakes())) == wanted
    quads = list(ox.parse(path=str(path)))
    (tmp_path / "cars.jsonld").write_bytes(ox.serialize(quads, format=ox.RdfFormat.JSON_LD))
    assert sorted(read(open_stream(str(tmp_path / "cars.jsonld"), Mistakes()))) == wanted
    path.write_text(TRIG.replace(":g2 prov", ":g3 prov"))
    with pytest.raises(StreamError, match="the graph <http://e/g2> has no prov:generatedAtTime"):
        read(open_stream(str(path), Mistakes()))
    path.write_text("<http://e/a> <http://e/p> <http://e/b> .")
    with pytest.raises(StreamError, match="no graph has a prov:generatedAtTime"):
        read(open_stream(str(path), Mistakes()))


@pytest.mark.parametrize("name", ["rides.csv", "rides.jsonl"])
def test_csv_and_json_lines_become_triples_by_a_mapping(tmp_path, read, name):
    (tmp_path / "rides.csv").write_text("at,id,km,driver\n1000,1,2.5,a b\n1970-01-01T00:00:02Z,2,3,\n")
    rows = [{"at": 1000, "id": 1, "km": 2.5, "driver": "a b"}, {"at": 2000, "id": 2, "km": 3}]
    (tmp_path / "rides.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "map.yaml").write_text(MAPPING.format(name))
    assert read(open_stream(str(tmp_path / "map.yaml"), Mistakes())) == [
        (1000, f'<http://e/ride/1> "2.5"{DOUBLE}'),
        (1000, "<http://e/ride/1> <http://e/a%20b>"),
        (2000, f'<http://e/ride/2> "3"{DOUBLE}'),
    ]


def test_a_row_that_is_none_and_a_mapping_that_is_none_are_errors(tmp_path, read):
    (tmp_path / "rides.csv").write_text("at,id,km,driver\n1000,1,2.5,a\nsoon,2,3,\n")
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.csv"))
    with pytest.raises(StreamError, match=r"rides.csv, line 3: soon is no instant"):
        read(open_stream(str(tmp_path / "map.yaml"), Mistakes()))
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.csv").replace("time:", "tiem:"))
    with pytest.raises(ConfigError, match="unknown key tiem; did you mean 'time'"):
        open_stream(str(tmp_path / "map.yaml"), Mistakes())


def test_rows_that_are_no_objects_and_files_that_are_no_text_are_told(tmp_path, read):
    (tmp_path / "map.yaml").write_text(MAPPING.format("rides.jsonl"))
    (tmp_path / "rides.jsonl").write_text('{"at": 1000, "id": 1, "km": 2.5}\n\n[1000]\n')
    with pytest.raises(StreamError, match=r"rides.jsonl, line 3: \[1000\] is no JSON object"):
        read(open_stream(str(tmp_path / "map.yaml"), Mistakes()))
    (tmp_path / "rides.jsonl").write_bytes(b'{"at": "\xff"}')
    with pytest.raises(InputError, match=r"rides.jsonl is no table in UTF-8"):
        read(open_stream(str(tmp_path / "map.yaml"), Mistakes()))


def test_a_directory_is_read_by_name_and_goes_on_with_files_that_come(tmp_path, read, three, expected):
    first, second, third = three.splitlines(keepends=True)
    (tmp_path / "b.nq").write_text(second)
    (tmp_path / "a.nq").write_text(first)
    (tmp_path / ".c.nq").write_text("half a li")
    assert read(open_stream(str(tmp_path), Mistakes())) == expected[:2]
    waits = iter([True, False])

    def wait():
        (tmp_path / "c.nq").write_text(third)
        return next(waits)

    assert read(Directory(tmp_path, TimedLines.file, True, wait)) == expected


def test_a_tcp_source_is_read_to_its_end(read, three, expected):
    def send():
        connection, _ = server.accept()
        with connection:
            connection.sendall(three.encode()[:17])
            connection.sendall(three.encode()[17:])

    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send)
        sender.start()
        assert read(open_stream(f"tcp://127.0.0.1:{server.getsockname()[1]}", Mistakes())) == expected
        sender.join()


def test_a_connection_that_breaks_off_is_an_error_of_ours(read, three):
    def send():
        connection, _ = server.accept()
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send)
        sender.start()
        connection = socket.create_connection(server.getsockname())
        stream = TimedLines("tcp://there", lambda: connection.makefile("rb"), Mistakes())
        connection.sendall(b"go")
        sender.join()
        with connection, pytest.raises(InputError, match=r"the stream tcp://there broke off: .*reset"):
            read(stream)


def test_server_sent_events_are_read_to_their_end(read, three, expected):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            for line in three.splitlines():
                self.wfile.write(f": comment\nevent: triple\ndata: {line}\n\n".encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        assert read(open_stream(f"http://127.0.0.1:{server.server_port}/", Mistakes())) == expected
        serving.join()


def test_an_address_without_a_port_and_a_file_of_no_kind_say_what_would_be_right(read):
    with pytest.raises(ConfigError, match="write tcp://host:port"):
        read(open_stream("tcp://localhost", Mistakes()))
    with pytest.raises(ConfigError, match=r"there is no stream cars\.xyz"):
        open_stream("cars.xyz", Mistakes())


def test_a_pace_hands_elements_on_when_they_are_due():
    wall, slept = [0.0], []

    def sleep(seconds):
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


def test_async_iterables_feed_a_query_and_its_results_are_awaited():
    text = "SELECT ?n FROM WINDOW <http://e/w> ON <http://e/s> [RANGE PT2S STEP PT1S] { ?x ?y ?n }"
    node = ox.NamedNode("http://e/x")

    async def coming(times):
        for at in times:
            await asyncio.sleep(0)
            yield at, ox.Triple(node, node, ox.Literal(at))

    async def collect():
        streams = {"http://e/s": coming([1000, 2000, 4000])}
        return [(r.t, len(r.answers)) async for r in run_async(ContinuousQuery(parse(text)), streams)]

    assert asyncio.run(collect()) == [(1000, 1), (2000, 2), (3000, 1), (4000, 1)]


def test_async_streams_that_are_silent_or_have_ended_hold_nobody_back():
    text = """SELECT ?n FROM WINDOW <http://e/w> ON <http://e/s> [RANGE PT9S STEP PT1S]
    FROM WINDOW <http://e/v> ON <http://e/r> [RANGE PT9S STEP PT1S] { ?x ?y ?n }"""
    node = ox.NamedNode("http://e/x")

    async def collect(idle):
        answered = asyncio.Event()

        async def steady():
            for at in (1000, 2000, 3000):
                yield at, ox.Triple(node, node, ox.Literal(at))
            await answered.wait()

        async def other():
            yield 500, ox.Triple(node, node, ox.Literal(500))
            if idle:
                await answered.wait()

        found = []
        streams = {"http://e/s": steady(), "http://e/r": other()}
        async for result in run_async(ContinuousQuery(parse(text)), streams, idle=idle):
            found.append((result.t, len(result.answers)))
            if result.t == 2000:
                answered.set()
        return found

    for idle in (None, 0.05):
        assert asyncio.run(collect(idle)) == [(1000, 2), (2000, 3), (3000, 4)]
