"""The server of fragments: requests for held pages by its processor's time, beside @ldf/server's.

.venv/bin/python benchmarks/fragments.py
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

LDF = Path(__file__).parent.parent / ".peers" / "ldf-server" / "node_modules"
REQUESTS = 3_000
CLIENTS = 200
TRAIN = "http://example.org/train/"
PATH = f"/trains?predicate={TRAIN}delay"


def trains(file: Path) -> None:
    """A hundred trains with five triples each."""
    lines = [
        f'<{TRAIN}{n}> <{TRAIN}{name}> "{n % 7}" .'
        for n in range(100)
        for name in ("delay", "platform", "headSign", "routeLabel", "departureTime")
    ]
    file.write_text("\n".join(lines))


def ours(file: Path, port: int) -> list[str]:
    """Our server's command."""
    command = [sys.executable, "-m", "freshkeeper", "serve-fragments", str(file)]
    return [*command, "--port", str(port), "--path", "/trains"]


def theirs(file: Path, port: int) -> list[str]:
    """That of @ldf/server."""
    context = "https://linkedsoftwaredependencies.org/bundles/npm/@ldf/server/^3.0.0/components/context.jsonld"
    config = {
        "@context": context,
        "@id": "urn:ldf-server:my",
        "import": "preset-qpf:config-defaults.json",
        "dataFactory": {
            "@id": "ldfc:DataFactory#dataFactory",
            "requireName": "n3",
            "requireElement": "DataFactory",
            "requireNoConstructor": True,
        },
        "datasources": [{"@id": "urn:d", "@type": "NTriplesDatasource", "datasourcePath": "trains", "file": str(file)}],
    }
    (file.parent / "config.json").write_text(json.dumps(config))
    return ["node", str(LDF / ".bin" / "ldf-server"), str(file.parent / "config.json"), str(port), "1"]


@contextmanager
def serving(command: list[str], port: int) -> Iterator[int]:
    """The process that answers, by its number."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not _answers(port) and time.monotonic() < until:
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield int(children[-1]) if children else process.pid
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def processor(pid: int) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def polling(file: Path, port: int) -> float:
    """Which part of a core 200 clients take that follow 200 triples, all of which change every ten seconds.

    At each change a client asks for what `freshkeeper follow` asks for: two pages of triples and two of their times.
    """
    elements = [
        f'{1 + at * 10_000}\t{1 + (at + 1) * 10_000}\t<{TRAIN}{n}> <{TRAIN}{name}> "{at}" .'
        for at in range(6)
        for n in range(100)
        for name in ("late", "track")
    ]
    changing = file.with_suffix(".tsv")
    changing.write_text("\n".join(elements))
    times = "/trains?predicate=http://example.org/temporal%23expiration&graph=urn:ldf:defaultGraph"
    pages = [f"/trains?predicate={TRAIN}late", f"/trains?predicate={TRAIN}track", times, f"{times}&page=2"]
    with serving([*ours(file, port), "--elements", str(changing), "--from-now"], port) as pid:
        time.sleep(11)
        began, start = processor(pid), time.monotonic()
        for change in range(2):
            for _ in range(CLIENTS):
                with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
                    for page in pages:
                        connection.sendall(_request(page, port))
                        _read(answers)
            time.sleep(max(0.0, start + 10 * (change + 1) - time.monotonic()))
        return (processor(pid) - began) / (time.monotonic() - start)


def _request(target: str, port: int) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/trig\r\n\r\n".encode()


def rate(pid: int, port: int) -> float:
    """Requests for one held page, per second of the server's processor time."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as file:
        request = _request(PATH, port)
        began = 0.0
        for n in range(REQUESTS + 50):
            began = processor(pid) if n == 50 else began
            connection.sendall(request)
            _read(file)
    return REQUESTS / max(0.01, processor(pid) - began)


def _read(file: object) -> None:
    headers = dict[str, str]()
    readline, read = file.readline, file.read  # type: ignore[attr-defined]
    readline()
    while line := readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if "content-length" in headers:
        read(int(headers["content-length"]))
        return
    while size := int(readline(), 16):
        read(size + 2)
    readline()


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def main() -> None:
    """One line each."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trains.nt"
        trains(file)
        rates = {}
        for name, command in (("freshkeeper", ours), ("@ldf/server", theirs)):
            if name == "@ldf/server" and not (LDF.exists() and shutil.which("node")):
                print("@ldf/server is not installed: make peers")
                continue
            port = free_port()
            with serving(command(file, port), port) as pid:
                rates[name] = rate(pid, port)
            print(f"{name}: {rates[name]:,.0f} requests for a held page per second of processor time")
        if len(rates) == 2:
            print(f"{rates['freshkeeper'] / rates['@ldf/server']:.1f} times as many")
        print(f"{CLIENTS} clients that follow 200 changing triples take {polling(file, free_port()):.1%} of a core")


if __name__ == "__main__":
    main()
