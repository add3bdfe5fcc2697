"""`freshkeeper serve-fragments`."""

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from freshkeeper.commands.screen import complain
from freshkeeper.policies.errors import ConfigError


def serve_fragments(
    data: Annotated[Path, typer.Argument(help="RDF: a file, or a directory of them; .nq and .trig with their graphs")],
    host: Annotated[str, typer.Option(help="where to listen; 0.0.0.0 is everywhere")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="the port; 0 is any free one", min=0, max=65_535)] = 3000,
    path: Annotated[str, typer.Option(help="the path of the fragments")] = "/",
    page_size: Annotated[int, typer.Option(help="quads of a page", min=1, max=10_000)] = 100,
    address: Annotated[
        str, typer.Option(help="the address of the fragments as others see it, where a proxy stands before it")
    ] = "",
) -> None:
    """Serve triple and quad pattern fragments of some RDF: a low-cost server for clients that do the joins.

    Examples: `freshkeeper serve-fragments trains.nq`, `freshkeeper serve-fragments data/ --port 8080 --path /trains`
    """
    from freshkeeper.maintenance.fragments.fragment_server import FragmentServer
    from freshkeeper.maintenance.fragments.http_listener import Listener
    from freshkeeper.maintenance.fragments.served_data import Served
    from freshkeeper.maintenance.rdf.rdf_files import load_graph

    if not path.startswith("/"):
        raise ConfigError(f"--path {path}: it begins with a slash, as /trains")
    quads = load_graph(data, named=True)
    server = FragmentServer(Served(quads), lambda: int(time.time() * 1000), path, page_size, address)
    listener = Listener(server.answer, time.time)

    async def serve() -> None:
        try:
            listening = await listener.listen(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}; --port 0 is any") from None
        where = listening.sockets[0].getsockname()
        complain(f"serving {len(quads)} quads at http://{where[0]}:{where[1]}{path} (Ctrl-C ends it)")
        await listening.serve_forever()

    asyncio.run(serve())
