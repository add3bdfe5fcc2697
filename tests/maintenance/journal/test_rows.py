"""Rows of the journal: what a request's share is, what was not sent, and journals that older versions wrote."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.files import PRIVATE, atomic_directory, atomic_file
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.engine.service_join.edge_refreshes import EdgeRefreshingEndpoint
from freshkeeper.maintenance.fetching.endpoint import Copy, Delivery, Expanded, Fetched, Key, Order, Price
from freshkeeper.maintenance.fetching.fetcher import deliver
from freshkeeper.maintenance.fetching.function_source import fetcher_of
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.journal.journal import keep_earlier
from freshkeeper.maintenance.journal.run_json import About, RunError
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.runtime.query_journal import QueryJournal
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.transport import Transport
from freshkeeper.policies.registry import make

E = "http://example.org/"
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
PARTS = split(parse(QUERY).services[0], [f"{E}followers"], ["post", "topic"])


def nodes(name: str, count: int) -> list[tuple[NamedNode]]:
    return [(NamedNode(f"{E}{name}{n}"),) for n in range(count)]


def nothing(query: str, now: int) -> list[Any]:
    return []


def asked(keys: int, sns: int, batch: int, allowance: int, edges: int = 0) -> Delivery:
    endpoint = pattern_fetcher(PARTS, Transport.in_process(nothing), Price(batch=batch))
    order = Order(1000, nodes("u", keys), nodes("t", sns), allowance, nodes("e", edges))
    return deliver(EdgeRefreshingEndpoint(endpoint), order)


def outcomes(delivery: Delivery) -> list[Copy | Expanded]:
    return [*delivery.copies, *delivery.expanded, *delivery.edges]


def test_keys_that_go_together_share_a_request_and_what_is_not_sent_has_none() -> None:
    """Seven keys in threes are three requests; two are paid for, so the last key or the last three wait."""
    found = asked(7, 0, 3, 3)
    assert found.requests == 3
    assert sorted(found.sent) == pytest.approx([1 / 3] * 6 + [1])
    found = asked(7, 0, 3, 2)
    assert found.requests == 2
    assert sum(found.sent) == pytest.approx(2)
    unsent = [share for share, one in zip(found.sent, found.copies, strict=True) if one.error is not None]
    assert unsent
    assert not any(unsent)


@given(*[st.integers(0, 9)] * 2, st.integers(1, 4), st.integers(0, 9), st.integers(0, 4))
def test_shares_add_up_to_the_requests_and_are_none_of_what_was_not_sent(
    keys: int, sns: int, batch: int, allowance: int, edges: int
) -> None:
    found = asked(keys, sns, batch, allowance, edges)
    assert sum(found.sent) == pytest.approx(found.requests)
    assert [share > 0 for share in found.sent] == [one.error is None for one in outcomes(found)]
    assert [len(part) for part in found.shares] == [keys, sns, edges]


class Pairs:
    """A simple source that asks for two keys at a time, and for SNs one by one."""

    price = Price(per_request=0.5)

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        requests = -(-len(keys) // 2)
        return Fetched([Copy(0) for _ in keys], requests * 0.5, requests)

    def expand(self, sn: Key, now: int) -> Expanded:
        return Expanded({f"{sn}'": Copy(0)}, 0.5, 1)


def test_a_simple_source_shares_its_requests_evenly_and_one_that_says_nothing_too() -> None:
    assert deliver(fetcher_of(Pairs()), Order(0, ["a", "b", "c"], ["x"])).sent == [2 / 3, 2 / 3, 2 / 3, 1]
    assert Delivery([Copy(), Copy()], [Expanded()], 1.0, 1).shares == ([1 / 3, 1 / 3], [1 / 3], [])
    assert Delivery([], [], 0.0, 0).shares == ([], [], [])


def test_the_rows_of_an_evaluation_add_up_to_its_requests(tmp_path: Path) -> None:
    """Of six lookup keys at most two are fetched at a time, later entries in pairs."""
    manager = Manager(WindowSpec(4000, 1000), Pairs(), make("lru"), BudgetRule.of(1), Learned())
    told = QueryJournal(0, tmp_path)
    for now in range(1000, 9000, 1000):
        told.observe("s", manager, manager.evaluate(now, [(now, f"t{n}") for n in range(6)]))
    told.close()
    evaluations, refreshes = (journal.read(tmp_path, name) for name in ("evaluations", "refreshes"))
    assert evaluations is not None
    counted = dict.fromkeys(evaluations["k"].to_pylist(), 0.0)
    assert refreshes is not None
    for k, share in zip(refreshes["k"].to_pylist(), refreshes["requests"].to_pylist(), strict=True):
        counted[k] += share
    assert list(counted.values()) == pytest.approx(evaluations["requests"].to_pylist())
    assert [2 * spent for spent in evaluations["spent"].to_pylist()] == evaluations["requests"].to_pylist()
    assert {sr for sr in refreshes["sr"].to_pylist() if sr.startswith("miss ")} == {f"miss t{n}" for n in range(6)}


def test_a_part_of_another_version_is_refused(tmp_path: Path) -> None:
    rows = journal.table("refreshes", {"k": [2], "sr": ["a"], "requests": [0.5]})
    journal.write_part(tmp_path, "refreshes", 1, rows.drop_columns(["late"]))
    journal.write_part(tmp_path, "refreshes", 2, rows)
    with pytest.raises(InputError, match=r"part-0000000001\.parquet has no column 'late': another version"):
        journal.read(tmp_path, "refreshes")


def test_columns_that_a_later_version_has_added_are_left_out(tmp_path: Path) -> None:
    rows = journal.table("refreshes", {"k": [2], "sr": ["a"], "requests": [0.5]})
    journal.write_part(tmp_path, "refreshes", 1, rows.append_column("weather", pa.array(["fine"])))
    journal.write_part(tmp_path, "refreshes", 2, rows)
    found = journal.read(tmp_path, "refreshes")
    assert found is not None
    assert found.column_names == journal.SCHEMAS["refreshes"].names


def test_run_json_comes_back_as_it_was_written(tmp_path: Path) -> None:
    assert About.read(tmp_path) is None
    about = About.of_queries(3, "freshkeeper run http://me:secret@host/", {"query": "q"})
    about.write(tmp_path / "new")
    found = About.read(tmp_path / "new")
    assert found is not None
    assert (found.seeds, found.config, found.complete) == ([3], {"query": "q"}, False)
    assert found.command == "freshkeeper run http://host/"
    assert about is not None
    assert found.bound == about.bound
    assert found.freshkeeper
    (tmp_path / "run.json").write_text(json.dumps({"seeds": "three"}))
    with pytest.raises(RunError, match=r"run\.json: seeds: it must be a list, not 'three'"):
        About.read(tmp_path)


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "new" / "file"
    with atomic_file(file, PRIVATE, durable) as unfinished:
        unfinished.write_text("one")
    assert file.stat().st_mode & 0o777 == PRIVATE
    with suppress(ZeroDivisionError), atomic_file(file, durable=durable) as unfinished:
        unfinished.write_text("tw")
        raise ZeroDivisionError
    assert file.read_text() == "one"
    with atomic_file(file, durable=durable) as unfinished:
        assert not unfinished.read_text(), "what an earlier one left is gone"
        unfinished.write_text("two")
    assert [each.name for each in file.parent.iterdir()] == ["file"]
    assert file.read_text() == "two"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"), atomic_file(tmp_path / "file" / "x"):
        pass


def test_a_directory_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with atomic_directory(place) as unfinished:
        (unfinished / "a").write_text("1")
    with suppress(ZeroDivisionError), atomic_directory(place) as unfinished:
        (unfinished / "b").write_text("2")
        raise ZeroDivisionError
    assert [each.name for each in place.iterdir()] == ["a"]
    with atomic_directory(place) as unfinished:
        (unfinished / "c").write_text("3")
    assert [each.name for each in place.iterdir()] == ["c"]
    assert [each.name for each in tmp_path.iterdir()] == ["place"]


def test_the_journal_of_an_earlier_run_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        keep_earlier(tmp_path)
        journal.write(tmp_path, "evaluations", [journal.table("evaluations", {"seed": [seed]})])
        (tmp_path / "run.json").write_text(str(seed))
        (tmp_path / "posts.nt").write_text("what is no journal stays")

    def seeds(place: Path) -> list[object]:
        table = journal.read(place, "evaluations")
        assert table is not None
        return table["seed"].to_pylist()

    assert seeds(tmp_path) == [3]
    earlier = [(seeds(tmp_path / "earlier" / n), n) for n in ("1", "2")]
    assert earlier == [([1], "1"), ([2], "2")]
    assert [(tmp_path / "earlier" / n / "run.json").read_text() for n in "12"] == ["1", "2"]
    assert (tmp_path / "posts.nt").exists()
