"""Servers on loopback: an oxigraph for a module's tests, proxies before it, and documents in JSON."""

import pytest
from servers import BLOG, Documents, Oxigraph, Proxy, Saying


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """No proxy of the environment is between tests and their servers."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def oxigraph():
    """A server that all tests of a module share."""
    server = Oxigraph(BLOG)
    yield server
    server.stop()


@pytest.fixture
def proxied(oxigraph):
    """Makes a proxy before the server; all are stopped after the test."""
    made = []

    def make(fault=""):
        made.append(Proxy(oxigraph.port, fault))
        return made[-1]

    yield make
    for proxy in made:
        proxy.stop()


@pytest.fixture
def documents():
    """Makes a server of JSON documents."""
    made = []

    def make(found):
        made.append(Documents(found))
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def saying():
    """Makes a server that says what it is told to say."""
    made = []

    def make(said):
        made.append(Saying(said))
        return made[-1]

    yield make
    for server in made:
        server.stop()
