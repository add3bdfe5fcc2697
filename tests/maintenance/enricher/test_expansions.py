"""Several rows to a key, which other keys have too."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from freshkeeper import AsyncEnricher, Enricher
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.expansions import EntryRows

DISCUSSED = {"jazz": ["ann", "bob"], "rock": ["bob"], "folk": []}
FOLLOWERS = {"ann": 10, "bob": 20}


def followers(users: list[str]) -> dict[str, int]:
    return {user: FOLLOWERS[user] for user in users}


def test_a_key_has_the_rows_of_its_entries_and_shared_ones_are_fetched_once() -> None:
    asked, expanded = [], []

    def lookup(users: list[str]) -> dict[str, int]:
        asked.append(list(users))
        return followers(users)

    def expand(topic: str) -> list[str]:
        expanded.append(topic)
        return DISCUSSED[topic]

    with Enricher(lookup, "50/s", expand=expand) as enricher:
        jazz, rock, folk, again = map(enricher.get_entries, ("jazz", "rock", "folk", "jazz"))
        assert {user: row.value for user, row in jazz.rows.items()} == FOLLOWERS
        assert {user: row.value for user, row in rock.rows.items()} == {"bob": 20}
        assert (folk.rows, folk.freshness, folk.error) == ({}, 1.0, None)
        assert 0 < again.freshness <= 1
        assert sorted(user for users in asked for user in users) == ["ann", "bob"]
        assert expanded == ["jazz", "rock", "folk"]
        enricher.forget("jazz")
        enricher.get_entries("jazz")
        assert expanded[-1] == "jazz"


def test_expansions_are_paid_for() -> None:
    enricher = Enricher(followers, "4/s", bank=2, expand=DISCUSSED.get, background=False, clock=lambda: 1000.0)
    found = [enricher.get_entries(topic) for topic in ("jazz", "rock", "folk", "folk")]
    assert found[2].error == "the budget is spent"
    assert enricher.stats().requests == 4  # two expansions and two users
    enricher.close()


def test_a_failure_is_the_answer_and_is_not_remembered() -> None:
    answers: Iterator[ValueError | list[str]] = iter([ValueError("down"), ["ann"]])

    def expand(topic: str) -> list[str]:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    with Enricher(followers, "50/s", expand=expand) as enricher:
        failed, found = enricher.get_entries("jazz"), enricher.get_entries("jazz")
        assert (failed.rows, failed.freshness) == ({}, 0.0)
        assert "down" in str(failed.error)
        assert found.rows["ann"].value == 10


def test_who_asks_for_the_same_key_shares_a_request_and_only_so_many_keys_are_held() -> None:
    expanded, go = [], Event()

    def expand(topic: str) -> list[str]:
        expanded.append(topic)
        go.wait(60)
        return ["ann"]

    with Enricher(followers, "500/s", expand=expand, capacity=2) as enricher, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(enricher.get_entries, "jazz") for _ in range(8)]
        go.set()
        assert [one.result(60).rows["ann"].value for one in asked] == [10] * 8
        assert expanded == ["jazz"]
        for topic in ("a", "b", "jazz"):
            enricher.get_entries(topic)
        assert expanded == ["jazz", "a", "b", "jazz"], "two are held"


@pytest.mark.parametrize("awaited", [False, True])
def test_the_same_on_an_event_loop(awaited: bool) -> None:
    expanded = []

    def expand(topic: str) -> list[str]:
        expanded.append(topic)
        return DISCUSSED[topic]

    async def expand_later(topic: str) -> list[str]:
        await asyncio.sleep(0)
        return expand(topic)

    async def main() -> list[EntryRows]:
        async with AsyncEnricher(followers, "50/s", expand=expand_later if awaited else expand) as enricher:
            return await asyncio.gather(*[enricher.get_entries("jazz") for _ in range(5)])

    found = asyncio.run(main())
    assert [one.rows["bob"].value for one in found] == [20] * 5
    assert expanded == ["jazz"]


def test_without_expand_there_are_no_entries() -> None:
    with Enricher(followers, "5/s") as enricher, pytest.raises(ConfigError, match="needs expand="):
        enricher.get_entries("jazz")
