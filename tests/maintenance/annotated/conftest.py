"""Servers of fragments that are stopped with the test."""

from collections.abc import Callable, Iterator

import pytest
from fragment_sites import FragmentSite, Pages, PageSaid
from servers import making


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the environment is between tests and their servers."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def sites() -> Iterator[Callable[..., FragmentSite]]:
    """Makes servers of ours."""
    with making(FragmentSite) as make:
        yield make


@pytest.fixture
def pages() -> Iterator[Callable[[PageSaid], Pages]]:
    """Makes servers that say what they are told to."""
    with making(Pages) as make:
        yield make
