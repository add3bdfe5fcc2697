"""What the fuzzer feeds: each target takes inputs, and may refuse them with an error of ours and in no other way."""

import asyncio
import io
import os
import shutil
import signal
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from feeds import Line
from samples import MAPPINGS

from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource, PageRequests
from freshkeeper.maintenance.annotated.fragment_server import FragmentServer
from freshkeeper.maintenance.annotated.http_listener import HttpListener
from freshkeeper.maintenance.annotated.served_data import StaticData
from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.base.rdf_files import load_graph
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines
from freshkeeper.maintenance.outputs.formats import FORMATS, writer
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.runtime.run_config import config_of, read_config
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationEncoding, AnnotationStyle, TimeEncoding
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.source_config import read_config as read_source
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.live.feed import Feed, FeedLines, OnLoss
from freshkeeper.maintenance.streams.live.server_sent_events import EventConnection
from freshkeeper.maintenance.streams.opening import open_stream
from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.simulator.experiment.experiment_config import load

E = "http://e/"
MAPPING = MAPPINGS[0].decode()
Next = Callable[[], bytes | None]
"""The next input, or nothing when there are no more"""
Target = Callable[[Path, Next], None]


# answers of sources

PATTERNS = (
    "?who :followers ?n",
    "?who :boss ?b . ?b :followers ?n",
    "?who :followers ?n OPTIONAL { ?who :boss ?b }",
    "?who :boss ?b OPTIONAL { ?b :followers ?n }",
)
HEADS = ("SELECT ?who ?n", "SELECT ?who (SUM(?n) AS ?sum)", "SELECT DISTINCT ?n")
QUERY = """PREFIX : <http://e/> {head} FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]
WHERE {{ WINDOW :w {{ ?p :by ?who }} SERVICE :x {{ {pattern} }} }} {tail}"""
FORM = b"http://here.example"
"""The server in samples of pages."""
RUNS = 60
"""Inputs of one run."""


class Server:
    """Sends raw bytes to whoever asks: a head and a body."""

    def __init__(self, said: Callable[[], bytes]) -> None:
        """Listen on a free port."""

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = list(iter(lambda: self.rfile.readline().strip().lower(), b""))
                length = next((int(line[15:]) for line in head if line.startswith(b"content-length:")), 0)
                self.rfile.read(length)
                with suppress(OSError):  # who has read enough goes away
                    self.wfile.write(said())

        class Listening(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Listening(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def answers(place: Path, following: Next) -> None:
    """A SPARQL endpoint answers the requests of runs."""
    _runs(place, following, lambda url: {"sparql": url, "batch": 4})


def documents(place: Path, following: Next) -> None:
    """JSON documents are what requests of runs find."""
    predicates = {f"{E}followers": "stats.followers", f"{E}boss": {"path": "boss", "iri": f"{E}{{id}}"}}
    resource = {"subject": f"{E}{{id}}", "predicates": predicates}
    _runs(place, following, lambda url: {"resources": [resource | {"url": f"{url}/{{id}}"}]})


def fragments(place: Path, following: Next) -> None:
    """Pages of fragments are what requests of runs find; they say that the form is where the server is."""
    _runs(place, following, lambda url: {"fragments": f"{url}/f", "batch": 4}, FORM)


def _runs(place: Path, following: Next, source: Callable[[str], dict[str, object]], here: bytes = b"-") -> None:
    """Runs of some evaluations, each of which asks; a state goes to the next; `here` is the server in samples."""
    over = False

    def said() -> bytes:
        nonlocal over
        found = following()
        over = over or found is None
        if found is not None and here != b"-":
            found = found.replace(here, server.url.encode())
        return found or b"HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n"

    server = Server(said)
    elements = (f"{1000 * n}\t<{E}p{n}> <{E}by> <{E}w{n % 40}> .\n" for n in range(1, RUNS + 1))
    (place / "s.nq").write_text("".join(elements))
    for number in count():
        if over:
            break
        text = QUERY.format(
            head=HEADS[number % 3], pattern=PATTERNS[number % 4], tail="GROUP BY ?who" if number % 3 == 1 else ""
        )
        more = {"volatile": f"{E}followers", "retries": 0, "failures": 10**6, "timeout": "5s"}
        more |= {"knowledge": ("learned", "published")[number % 2], "max_size": "4MB"}
        state = {} if number % 5 == 4 else {"state": place / f"state{number % 12}"}
        fetch = "always" if number % 5 == 4 else "view"
        inputs = {"streams": {f"{E}s": str(place / "s.nq")}, "sources": {f"{E}x": source(server.url) | more}}
        shutil.rmtree(place / f"state{number % 12}", ignore_errors=True)
        for _ in range(2 if state else 1):
            config = config_of({"query": text, "budget": 2, "policy": "lru", "fetch": fetch, **inputs, **state})
            results = list(Session(config, parse(text)).results())
            assert fetch == "view" or len(results) >= RUNS - 1, f"{len(results)} evaluations"
    server.stop()


def followed(place: Path, following: Next) -> None:
    """Pages of fragments are what `follow` finds."""
    over = False

    def said() -> bytes:
        nonlocal over
        found = following()
        over = over or found is None
        return (found or b"HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n").replace(FORM, server.url.encode())

    del place
    server = Server(said)
    for number in count():
        if over:
            break
        client = FragmentsOverHttp(f"{server.url}/f", cached=number % 2 == 0)
        style = AnnotationStyle([*AnnotationEncoding][number % 5], [*TimeEncoding][number % 3])
        source = AnnotatedSource(client, style if number % 4 else None, requests=PageRequests(retries=0, timeout=5.0))
        with suppress(FreshkeeperError):
            query = f"SELECT * {{ ?s <{E}boss> ?b . ?s <{E}followers> ?n }}"
            asked = AnnotatedQuery([source], query)
            asked.evaluate(asked.parts())
        client.close()
    server.stop()


def requests(place: Path, following: Next) -> None:
    """Bytes at the server of fragments, each on a connection of its own."""
    del place
    loop = asyncio.new_event_loop()
    listener = HttpListener(FragmentServer(StaticData([]), lambda: 1_000, "/f").answer, lambda: 1.0)

    async def ask(port: int, text: bytes) -> None:
        reader, writing = await asyncio.open_connection("127.0.0.1", port)
        with suppress(OSError):
            writing.write(text + b"\r\n\r\nGET /f HTTP/1.1\r\nConnection: close\r\n\r\n")
            await asyncio.wait_for(reader.read(), 20)
        writing.close()
        with suppress(OSError):
            await writing.wait_closed()

    listening = loop.run_until_complete(listener.listen("127.0.0.1", 0))
    port = listening.sockets[0].getsockname()[1]
    for text in _inputs(following):
        loop.run_until_complete(ask(port, text))
    listening.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


# streams

STREAM = """PREFIX : <http://e/> SELECT * FROM NAMED WINDOW :w ON :s [RANGE P20D STEP P10D]
WHERE { WINDOW :w { ?a ?b ?c } }"""
TRIPLES = STREAM.replace("SELECT *", "CONSTRUCT { ?a ?b ?c }")


def _over(stream: Stream) -> None:
    """A query over it, written in every form."""
    for text, formats in ((STREAM, [*FORMATS][:3]), (TRIPLES, ["ndjson", "nquads"])):
        writers = [writer(name) for name in formats]
        for result in run(build(parse(text)), {f"{E}s": stream}):
            for each in writers:
                "".join(each.lines(result)).encode()


def lines(place: Path, following: Next) -> None:
    """Timestamped N-Quads."""
    for text in _inputs(following):
        _over(TimedLines("s", partial(io.BytesIO, text), ReadErrors(OnError.SKIP)))


def columns(place: Path, following: Next) -> None:
    """The same as columns of ids."""
    dictionary = Dictionary()
    for text in _inputs(following):
        lines = TimedLines("s", partial(io.BytesIO, text), ReadErrors(OnError.SKIP))
        _over(ColumnLines(lines, dictionary))
        dictionary.sweep()


def events(place: Path, following: Next) -> None:
    """The same as server-sent events."""
    for text in _inputs(following):
        feed = Feed(Line([EventConnection(_reader(text)) for _ in range(2)]), OnLoss.END)  # it is read twice
        _over(FeedLines("events", io.BytesIO, ReadErrors(OnError.SKIP), feed=feed))


def _reader(text: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(text))


def _file(name: str, **beside: str) -> Target:
    """A stream in a file of this name."""

    def target(place: Path, following: Next) -> None:
        for other, words in beside.items():
            (place / other.replace("_", ".")).write_text(words)
        for text in _inputs(following):
            (place / name).write_bytes(text)
            with suppress(FreshkeeperError):
                _over(open_stream(str(place / ("map.yaml" if beside else name)), ReadErrors(OnError.SKIP)))

    return target


def mappings(place: Path, following: Next) -> None:
    """The mapping of a table."""
    (place / "rides.csv").write_text("id,at,km\n1,1000,2.5\n2,2000,\n")
    for text in _inputs(following):
        (place / "map.yaml").write_bytes(text)
        with suppress(FreshkeeperError):
            _over(open_stream(str(place / "map.yaml"), ReadErrors(OnError.SKIP)))


def _graph(name: str) -> Target:
    """A static graph in a file of this name."""

    def target(place: Path, following: Next) -> None:
        for text in _inputs(following):
            (place / name).write_bytes(text)
            with suppress(FreshkeeperError):
                load_graph(place / name)

    return target


# configs


def _config(name: str, read: Callable[[Path], object]) -> Target:
    def target(place: Path, following: Next) -> None:
        for text in _inputs(following):
            (place / name).write_bytes(text)
            with suppress(FreshkeeperError):
                read(place / name)

    return target


# states


def states(place: Path, following: Next) -> None:
    """The database of a state; an input is its bytes from somewhere on."""
    (place / "s.nq").write_text("".join(f"{n}000\t<{E}p{n}> <{E}by> <{E}w{n % 4}> .\n" for n in range(1, 6)))
    (place / "x.ttl").write_text(
        "".join(f"<{E}w{n}> <{E}boss> <{E}b> . " for n in range(4)) + f"<{E}b> <{E}followers> 7 ."
    )
    text = QUERY.format(head=HEADS[0], pattern=PATTERNS[1], tail="")
    source = {"data": str(place / "x.ttl"), "volatile": f"{E}followers"}
    inputs = {"streams": {f"{E}s": str(place / "s.nq")}, "sources": {f"{E}x": source}, "policy": "lru"}
    config = config_of({"query": text, "state": place / "state", **inputs})

    def once() -> None:
        list(Session(config, parse(text)).results())

    once()
    whole = (place / "state" / "state.sqlite").read_bytes()
    for change in _inputs(following):
        for stale in (place / "state").iterdir():
            stale.unlink()
        at, piece = int.from_bytes(change[:3]) % len(whole), change[3:203]
        (place / "state" / "state.sqlite").write_bytes(whole[:at] + piece + whole[at + len(piece) :])
        with suppress(FreshkeeperError):
            once()


# what the fuzzer itself is tried with


def dies(place: Path, following: Next) -> None:
    """A signal at the third."""
    for number, _ in enumerate(_inputs(following)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGSEGV)


def raises(place: Path, following: Next) -> None:
    """A traceback at the third."""
    for number, _ in enumerate(_inputs(following)):
        if number == 2:
            raise ValueError("third")


def grows(place: Path, following: Next) -> None:
    """Too much memory at the third."""
    for number, _ in enumerate(_inputs(following)):
        if number == 2:
            os.environ["GROWN"] = str(len(bytearray(b"x") * 1_700_000_000))


def hangs(place: Path, following: Next) -> None:
    """No end at the third."""
    for number, _ in enumerate(_inputs(following)):
        if number == 2:
            threading.Event().wait()


def _inputs(following: Next) -> Iterator[bytes]:
    return iter(following, None)


TARGETS: dict[str, Target] = {
    "answers": answers,
    "documents": documents,
    "fragments": fragments,
    "followed": followed,
    "requests": requests,
    "lines": lines,
    "columns": columns,
    "events": events,
    "trig": _file("s.trig"),
    "jsonld": _file("s.jsonld"),
    "csv": _file("rides.csv", map_yaml=MAPPING),
    "jsonl": _file("rides.jsonl", map_yaml=MAPPING.replace("csv", "jsonl")),
    "mappings": mappings,
    "turtle": _graph("g.ttl"),
    "rdfxml": _graph("g.rdf"),
    "runs": _config("run.yaml", lambda path: read_config(path, {})),
    "sources": _config("source.yaml", read_source),
    "experiments": _config("experiment.yaml", load),
    "states": states,
}
OWN: dict[str, Target] = {"dies": dies, "raises": raises, "grows": grows, "hangs": hangs}
