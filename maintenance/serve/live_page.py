"""The page of a service: files that are sent as they are, to anybody, as there is nothing in them but the page itself.

What it shows it asks the service for, as any client does, with the word that a person gave it.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

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
    """The page at /, and what it is made of beside it."""
    return [_route("/", FILES / "index.html"), *(_route(f"/page/{file.name}", file) for file in _parts())]


def _parts() -> list[Path]:
    return sorted(file for file in FILES.iterdir() if file.suffix in KINDS and file.suffix != ".html")


def _route(path: str, file: Path) -> Route:
    body, kind = file.read_bytes(), KINDS[file.suffix]

    async def send(request: Request) -> Response:
        del request
        return Response(body, headers=HEADERS, media_type=kind)

    return Route(path, send)
