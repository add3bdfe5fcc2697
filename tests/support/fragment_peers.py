"""Other people's server and client of fragments, which `make peers` installs: @ldf/server and Comunica."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUPPORT = Path(__file__).parent


def installed(name: str) -> Path:
    """Its node_modules; the test is skipped where it is not there."""
    found = ROOT / ".peers" / name / "node_modules"
    if shutil.which("node") is None:
        pytest.skip("Node is missing")
    if not found.exists():
        pytest.skip(f"{name} is not installed: make peers")
    return found


def by_comunica(source: str, queries: list[str]) -> list[list[dict[str, str]]]:
    """The solutions of queries over one source, terms as SPARQL writes them."""
    modules = installed("comunica")
    given = json.dumps({"sources": [source], "queries": queries})
    command = ["node", str(SUPPORT / "comunica_rows.js"), str(modules)]
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 0, done.stderr
    found: list[list[dict[str, str]]] = json.loads(done.stdout)
    return found


class LdfServer:
    """@ldf/server over a file of N-Quads or N-Triples, at `url`."""

    def __init__(self, file: Path) -> None:
        """Start it, wait until it answers."""
        modules = installed("ldf-server")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        kind = "NQuadsDatasource" if file.suffix == ".nq" else "NTriplesDatasource"
        config: dict[str, object] = {
            "@context": "https://linkedsoftwaredependencies.org/bundles/npm/@ldf/server/^3.0.0/components/context.jsonld",
            "@id": "urn:ldf-server:my",
            "import": "preset-qpf:config-defaults.json",
            "dataFactory": {
                "@id": "ldfc:DataFactory#dataFactory",
                "requireName": "n3",
                "requireElement": "DataFactory",
                "requireNoConstructor": True,
            },
            "datasources": [{"@id": "urn:d", "@type": kind, "datasourcePath": "data", "file": str(file)}],
        }
        where = file.parent / "ldf-server.json"
        where.write_text(json.dumps(config))
        command = ["node", str(modules / ".bin" / "ldf-server"), str(where), str(port), "1"]
        self.url = f"http://127.0.0.1:{port}/data"
        log = (file.parent / "ldf-server.log").open("w")
        with log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=file.parent)
        until = time.monotonic() + 120
        while not self._answers(port):
            assert time.monotonic() < until, (file.parent / "ldf-server.log").read_text()
            time.sleep(0.05)

    def _answers(self, port: int) -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End it and its worker."""
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()
