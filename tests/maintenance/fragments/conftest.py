"""Servers of fragments that are stopped with the test."""

import pytest
from fragment_sites import FragmentSite, Pages


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """No proxy of the environment is between tests and their servers."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def sites():
    """Makes servers of ours."""
    made = []

    def make(*given, **more):
        made.append(FragmentSite(*given, **more))
        return made[-1]

    yield make
    for site in made:
        site.stop()


@pytest.fixture
def pages():
    """Makes servers that say what they are told to."""
    made = []

    def make(said):
        made.append(Pages(said))
        return made[-1]

    yield make
    for site in made:
        site.stop()
