"""Servers on loopback: an oxigraph for a module's tests, proxies before it, and documents in JSON."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest
from servers import BLOG, Documents, MakeProxy, Oxigraph, Proxy, Said, Saying, making


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the environment is between tests and their servers."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def oxigraph() -> Iterator[Oxigraph]:
    """A server that all tests of a module share."""
    server = Oxigraph(BLOG)
    yield server
    server.stop()


@pytest.fixture
def proxied(oxigraph: Oxigraph) -> Iterator[MakeProxy]:
    """Makes a proxy before the server; all are stopped after the test."""
    with making(partial(Proxy, oxigraph.port)) as make:
        yield make


@pytest.fixture
def documents() -> Iterator[Callable[[Mapping[str, object]], Documents]]:
    """Makes a server of JSON documents."""
    with making(Documents) as make:
        yield make


@pytest.fixture
def saying() -> Iterator[Callable[[Said], Saying]]:
    """Makes a server that says what it is told to say."""
    with making(Saying) as make:
        yield make
