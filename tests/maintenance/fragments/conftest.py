"""Servers of fragments that are stopped with the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fragment_sites import FragmentSite, Pages, PageSaid


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the environment is between tests and their servers."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def sites() -> Iterator[Callable[..., FragmentSite]]:
    """Makes servers of ours."""
    made: list[FragmentSite] = []

    def make(*given: Any, **more: Any) -> FragmentSite:
        made.append(FragmentSite(*given, **more))
        return made[-1]

    yield make
    for site in made:
        site.stop()


@pytest.fixture
def pages() -> Iterator[Callable[[PageSaid], Pages]]:
    """Makes servers that say what they are told to."""
    made: list[Pages] = []

    def make(said: PageSaid) -> Pages:
        made.append(Pages(said))
        return made[-1]

    yield make
    for site in made:
        site.stop()
