"""The HTTP client on an event loop: the same exchanges as exchange.py has, awaited, without threads."""

import asyncio
import http.client
import io
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from urllib.request import getproxies

from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.compression import Unpacker
from freshkeeper.maintenance.fetching.http.connection import CHUNK, Place, trusted_certificates
from freshkeeper.maintenance.fetching.http.exchange import (
    MAX_ERROR,
    MEGABYTE,
    Call,
    HttpResponse,
    addressed,
    as_fetch_errors,
    too_large,
)

MAX_HEAD = 65_536
STATUSES_WITHOUT_BODY = (204, 304)


@dataclass(eq=False)
class AsyncConnection:
    """The two directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(eq=False)
class AsyncConnectionPool:
    """Connections to sources on the running event loop; those of another loop are forgotten."""

    max_bytes: int = 32 * MEGABYTE
    proxies: Mapping[str, str] = field(default_factory=getproxies)
    _idle: dict[Place, list[AsyncConnection]] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = None

    async def exchange(self, call: Call, timeout_s: float) -> HttpResponse:
        """Send a call and read the whole response, whatever its status; raise FetchError if that fails."""
        place, target, headers = addressed(call, self.proxies)
        connection, reusable = None, False
        try:
            with as_fetch_errors():
                async with asyncio.timeout(timeout_s):
                    connection = await self._connected(place)
                    host = place.host if place.port is None else f"{place.host}:{place.port}"
                    lines = [f"{call.method} {target} HTTP/1.1", f"Host: {host}"]
                    lines += [f"{name}: {value}" for name, value in headers.items()]
                    if call.body is not None:
                        lines.append(f"Content-Length: {len(call.body)}")
                    connection.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (call.body or b""))
                    await connection.writer.drain()
                    response, reusable = await self._response(connection.reader)
                    return response
        finally:
            if connection is not None and reusable:
                self._idle.setdefault(place, []).append(connection)
            elif connection is not None:
                connection.writer.close()

    async def close(self) -> None:
        """Close the connections that wait for the next exchange."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.writer.close()
                await connection.writer.wait_closed()

    async def _connected(self, place: Place) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._idle = loop, {}
        idle = self._idle.get(place, [])
        while idle:
            connection = idle.pop()
            if not connection.reader.at_eof():
                return connection
            connection.writer.close()
        first = place.via or place
        context = trusted_certificates() if first.tls else None
        try:
            port = first.port or (443 if first.tls else 80)
            reader, writer = await asyncio.open_connection(first.host, port, ssl=context, limit=MAX_HEAD)
        except OSError as error:
            reason = error.strerror or error
            raise FetchError(f"connection: no way to {place.masked}: {reason}", again=True) from None
        if place.via is not None and place.tls:
            await self._tunnel(place, reader, writer)
        return AsyncConnection(reader, writer)

    async def _tunnel(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Have a proxy connect to the host, and encrypt what passes."""
        assert place.via is not None
        where = f"{place.host}:{place.port or 443}"
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}", *(f"{k}: {v}" for k, v in place.via.headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        status, reason, _ = _head(await reader.readuntil(b"\r\n\r\n"))
        if status != 200:
            writer.close()
            raise FetchError(f"connection: no way to {place.masked}: {status} {reason}", again=True)
        await writer.start_tls(trusted_certificates(), server_hostname=place.host)

    async def _response(self, reader: asyncio.StreamReader) -> tuple[HttpResponse, bool]:
        """Read a response; return it, and whether another one may follow on this connection."""
        status, reason, headers = 100, "", http.client.HTTPMessage()
        while 100 <= status < 200:
            try:
                status, reason, headers = _head(await reader.readuntil(b"\r\n\r\n"))
            except asyncio.IncompleteReadError:
                raise FetchError("connection: it broke: the server closed it", again=True) from None
            except asyncio.LimitOverrunError:
                raise FetchError("malformed: the headers of the answer have no end", again=True) from None
        failed = status >= 300
        limit = min(self.max_bytes, MAX_ERROR) if failed else self.max_bytes
        unpacker = Unpacker(headers.get("Content-Encoding", ""))
        found, size, packed, whole = [], 0, 0, True
        async for chunk in _chunks(reader, status, headers):
            found.append(unpacker.unpack(chunk, limit + 1 - size))
            size, packed = size + len(found[-1]), packed + len(chunk)
            if max(size, packed // 2) > limit:
                if not failed:
                    raise too_large(limit)
                whole = False
                break
        if whole and not unpacker.is_complete:
            raise FetchError(f"malformed: the answer ends before its {unpacker.coding} does", again=True)
        names = {name.lower(): value for name, value in headers.items()}
        ends = names.get("connection", "").lower() == "close" or not (_framed(names) or status in STATUSES_WITHOUT_BODY)
        return HttpResponse(status, reason, names, b"".join(found)[:limit]), whole and not ends


def _framed(names: Mapping[str, str]) -> bool:
    return "content-length" in names or names.get("transfer-encoding", "").lower() == "chunked"


def _head(written: bytes) -> tuple[int, str, http.client.HTTPMessage]:
    """Return status, reason and headers."""
    file = io.BytesIO(written)
    version, _, rest = file.readline().decode("latin-1").strip().partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not status.isdigit():
        raise FetchError("malformed: the answer is no HTTP", again=True)
    return int(status), reason, http.client.parse_headers(file)


async def _chunks(reader: asyncio.StreamReader, status: int, headers: http.client.HTTPMessage) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, as the headers say where it ends."""
    if status in STATUSES_WITHOUT_BODY:
        return
    if headers.get("Transfer-Encoding", "").lower() == "chunked":
        while left := int((await reader.readline()).split(b";")[0] or b"0", 16):
            async for chunk in _exactly(reader, left):
                yield chunk
            await reader.readline()
        while (await reader.readline()).strip():
            pass  # trailers
    elif "Content-Length" in headers:
        async for chunk in _exactly(reader, int(headers["Content-Length"])):
            yield chunk
    else:
        while chunk := await reader.read(CHUNK):
            yield chunk


async def _exactly(reader: asyncio.StreamReader, left: int) -> AsyncIterator[bytes]:
    while left:
        chunk = await reader.read(min(left, CHUNK))
        if not chunk:
            raise FetchError(f"malformed: the answer ends {left} bytes before its end", again=True)
        left -= len(chunk)
        yield chunk
