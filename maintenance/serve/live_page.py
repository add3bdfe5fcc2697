"""The live page of a service: static files, public, since they hold nothing but the page itself.

The page requests what it shows from the service like any other client, with the token that a person enters.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from freshkeeper.maintenance.pages.styles import COLOURS

FILES = Path(__file__).with_name("page")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[Route]:
    """Return the routes of the page and of its files."""
    files = [file for file in sorted(FILES.iterdir()) if file.suffix in KINDS and file.suffix != ".html"]
    return [
        _route("/", (FILES / "index.html").read_bytes(), KINDS[".html"]),
        _route("/page/colours.css", COLOURS.encode(), KINDS[".css"]),
        *(_route(f"/page/{file.name}", file.read_bytes(), KINDS[file.suffix]) for file in files),
    ]


def _route(path: str, body: bytes, kind: str) -> Route:
    async def send(_: Request) -> Response:
        return Response(body, headers=HEADERS, media_type=kind)

    return Route(path, send)
