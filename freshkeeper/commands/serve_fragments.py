"""`freshkeeper serve-fragments`."""

import asyncio
import signal
import time
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Annotated

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.follow import milliseconds, one_of
from freshkeeper.commands.options import SPEAKING, TIMING
from freshkeeper.commands.screen import complain
from freshkeeper.maintenance.base.errors import ConfigError


def serve_fragments(
    data: Annotated[Path, Argument(help="a file of RDF, or a directory of files; .nq and .trig keep their graphs")],
    host: Annotated[str, Option(help="the address to listen on; 0.0.0.0: all interfaces")] = "127.0.0.1",
    port: Annotated[int, Option(help="the port; 0: any free port", min=0, max=65_535)] = 3000,
    path: Annotated[str, Option(help="the path of the fragments")] = "/",
    page_size: Annotated[int, Option(help="the number of quads per page", min=1, max=10_000)] = 100,
    elements: Annotated[
        Path | None,
        Option(help="a file of changing data: lines of <since ms>, a tab, <until ms>, a tab, a statement in N-Triples"),
    ] = None,
    from_now: Annotated[
        bool, Option("--from-now", help="times of --elements count from the start of the server instead of 1970")
    ] = False,
    speaking: Annotated[str, Option(help=SPEAKING)] = "graph",
    timing: Annotated[str, Option(help=TIMING)] = "expiration",
    history: Annotated[bool, Option("--history", help="keep elements that have ended")] = False,
    live: Annotated[
        str,
        Option(
            metavar="STREAM",
            help="a stream of new elements, in lines like those of --elements: -, follow:FILE, or an address "
            "(tcp://host:port, http://... for server-sent events, ws://...)",
        ),
    ] = "",
    notice: Annotated[
        str,
        Option(
            help="the least time between the arrival of a live element and its begin: pages may be cached that long"
        ),
    ] = "0s",
    address: Annotated[str, Option(help="the public address of the fragments behind a proxy")] = "",
) -> None:
    """Serve RDF data as triple and quad pattern fragments: a low-cost server for clients that do the joins.

    Examples: `freshkeeper serve-fragments trains.nq`, `freshkeeper serve-fragments data/ --port 8080 --path /trains`,
    `freshkeeper serve-fragments trains.nt --elements delays.tsv`,
    `delays | freshkeeper serve-fragments trains.nt --live - --notice 2s`
    """
    from freshkeeper.maintenance.annotated.annotated_data import AnnotatedData, read_elements_file
    from freshkeeper.maintenance.annotated.fragment_server import FragmentServer
    from freshkeeper.maintenance.annotated.http_listener import HttpListener
    from freshkeeper.maintenance.annotated.live_elements import LiveElements
    from freshkeeper.maintenance.annotated.served_data import ServableData, StaticData
    from freshkeeper.maintenance.base.rdf_files import load_graph
    from freshkeeper.maintenance.sources.fragments.annotation_style import (
        AnnotationEncoding,
        AnnotationStyle,
        TimedTriple,
        TimeEncoding,
    )

    if not path.startswith("/"):
        raise ConfigError(f"--path {path}: it begins with a slash, as /trains")
    quads = load_graph(data, named=True)
    serving: ServableData = StaticData(quads)
    coming: LiveElements | None = None
    shift = _now() if from_now else 0
    if elements is not None or live:
        style = AnnotationStyle(
            one_of(AnnotationEncoding, "--speaking", speaking), one_of(TimeEncoding, "--timing", timing)
        )
        if history and style.timing is TimeEncoding.EXPIRATION:
            raise ConfigError(
                "--history keeps what is over, and an expiration does not say since when: --timing interval"
            )
        base = address or f"http://{host}:{port}{path}"
        if style.speaking is AnnotationEncoding.IMPLICIT and not address and port == 0:
            raise ConfigError("--speaking implicit speaks of addresses: name a --port, or --address")
        changing = read_elements_file(elements, shift) if elements is not None else []
        promised = milliseconds("--notice", notice) if live else None
        serving = annotated = AnnotatedData(
            static=quads, elements=changing, style=style, base=base, history=history, notice=promised
        )
        if live:

            async def add(held: list[TimedTriple]) -> list[str]:
                return [annotated.add(each, _now()) for each in held]

            def take(held: list[TimedTriple]) -> list[str]:
                return asyncio.run_coroutine_threadsafe(add(held), loop).result()

            coming = LiveElements(live, take, complain, shift)
    server = FragmentServer(serving, _now, path, page_size, address)
    listener, loop = HttpListener(server.answer, time.time), asyncio.new_event_loop()

    async def serve() -> None:
        # As Ctrl-C does: it ends the task, where an error may be lost in the middle. A script that starts this in the
        # background has Ctrl-C ignored, and SIGTERM must end it all the same.
        on_interrupt = signal.getsignal(signal.SIGINT)
        if current_thread() is main_thread() and on_interrupt is not signal.SIG_IGN:
            signal.signal(signal.SIGTERM, on_interrupt)
        try:
            listening = await listener.listen(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}; --port 0 is any") from None
        where = listening.sockets[0].getsockname()
        complain(f"serving {len(quads)} quads at http://{where[0]}:{where[1]}{path} (Ctrl-C ends it)")
        if coming is not None:
            Thread(target=coming.run, daemon=True).start()
        began = time.process_time()
        try:
            await listening.serve_forever()
        finally:
            said = f"{server.requests:,} requests, {server.pages_built:,} pages made, {listener.sent:,} bytes sent"
            said += f", {time.process_time() - began:.2f} s of processor time"
            complain(f"{said}; {coming.summary()}" if coming is not None else said)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(serve())


def _now() -> int:
    return int(time.time() * 1000)
