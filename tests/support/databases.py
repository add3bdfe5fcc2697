"""PostgreSQL and Redis of Debian, started by a test on free ports; whoever lacks them skips with a reason."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from servers import HERE, eventually

HOW = "scripts/install-databases installs it"


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server((HERE, 0)) as free:
        return int(free.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((HERE, port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(command: list[str], port: int, **more: Any) -> Iterator[None]:
    """A server for as long as it is needed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    try:
        assert eventually(lambda: answers(port), 30), f"{command[0]} does not start"
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def redis_server(place: Path, port: int | None = None) -> Iterator[int]:
    """Redis without a disk; its port, any free one unless it has to be the same again."""
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip(f"no redis-server: {HOW}")
    port = port or free_port()
    command = [server, "--port", str(port), "--bind", HERE, "--save", "", "--appendonly", "no", "--dir", str(place)]
    with running(command, port):
        yield port


@contextmanager
def postgres(place: Path) -> Iterator[str]:
    """A new cluster; its address."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip(f"no PostgreSQL: {HOW}")
    user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    data = place / "postgres"
    data.mkdir()
    if user:
        shutil.chown(data, "postgres", "postgres")
        for parent in data.parents:
            if parent.stat().st_uid == 0 and str(parent) not in ("/", "/tmp"):
                parent.chmod(parent.stat().st_mode | 0o011)
    subprocess.run(
        [initdb, "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"],
        check=True, capture_output=True, timeout=120, **user,
    )  # fmt: skip
    port = free_port()
    options = ["-p", str(port), "-c", f"listen_addresses={HERE}", "-k", str(data), "-c", "fsync=off"]
    with running([str(Path(initdb).parent / "postgres"), "-D", str(data), *options], port, **user):
        ready = [str(Path(initdb).parent / "pg_isready"), "-q", "-h", HERE, "-p", str(port)]
        assert eventually(lambda: subprocess.run(ready, check=False).returncode == 0, 30)
        yield f"postgresql://postgres@{HERE}:{port}/postgres"
