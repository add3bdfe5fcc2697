"""Enriching by key: what is answered, what is fetched, and that the budget holds."""

import pickle
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookup_tables import START, Table

from freshkeeper import Copy, Enricher, FreshkeeperError
from freshkeeper.maintenance.base.errors import ConfigError, InputError, TimeError


def test_a_key_that_is_not_there_is_fetched_and_is_then_a_hit(make: Callable[..., Enricher], table: Table) -> None:
    enricher = make()
    assert enricher.get("a") == ("A", 1.0, 0, False, None)
    assert enricher.get("a") == ("A", 1.0, 0, True, None)
    assert table.asked == [["a"]]


def test_events_come_with_their_rows(make: Callable[..., Enricher]) -> None:
    events = [{"product": "a", "n": 1}, {"product": "b", "n": 2}, {"product": "a", "n": 3}]
    assert [(event["n"], row.value) for event, row in make().join(events, key="product")] == [
        (1, "A"), (2, "B"), (3, "A"),
    ]  # fmt: skip


def test_a_key_may_be_a_place_in_the_event_or_what_a_function_says(make: Callable[..., Enricher]) -> None:
    enricher = make()
    assert [row.value for _, row in enricher.join([("x", "a")], key=1)] == ["A"]
    assert [row.value for _, row in enricher.join(["B"], key=str.lower)] == ["B"]


def test_an_event_without_a_key_is_shown(make: Callable[..., Enricher]) -> None:
    with pytest.raises(InputError, match=r"the event \{'n': 1\} has no key: KeyError: 'product'"):
        list(make().join([{"n": 1}], key="product"))
    with pytest.raises(InputError, match="None is no key"):
        make().get(None)


def test_a_row_that_the_source_does_not_have_is_none_and_is_remembered(
    make: Callable[..., Enricher], table: Table
) -> None:
    enricher = make()
    assert enricher.get("zzz")[:2] == (None, 1.0)
    assert enricher.get("zzz").hit
    assert table.asked == [["zzz"]]


def test_what_is_asked_for_is_fetched_again_in_rounds_and_seen_to_change(
    make: Callable[..., Enricher], table: Table
) -> None:
    enricher = make()
    enricher.get("a")
    table.rows["a"] = "new"
    assert enricher.get("a").value == "A"
    enricher.tick(START + 1000)
    assert enricher.get("a") == ("new", 1.0, 0, True, None)
    assert (enricher.counts.refreshed, enricher.counts.changed) == (1, 1)


def test_freshness_falls_with_age_once_changes_were_seen(make: Callable[..., Enricher], table: Table) -> None:
    clock = [START]
    enricher = make(clock=lambda: clock[0], budget="2/s")
    enricher.get("a")
    for n in range(1, 6):
        table.rows["a"] = n
        clock[0] += 1000
        enricher.tick()
        assert enricher.get("a").freshness == 1.0
    clock[0] += 500
    later = enricher.get("a")
    assert later.age == 500
    assert 0.1 < later.freshness < 0.9
    clock[0] += 60_000
    assert enricher.get("a").freshness == 0.0


def test_without_reserve_it_answers_without_and_a_round_fetches_what_was_asked_for_most(
    make: Callable[..., Enricher], table: Table
) -> None:
    enricher = make(missing="without", budget="2/s")
    assert enricher.get("a") == (None, 0.0, None, False, "it is not in the cache")
    enricher.get("b")
    enricher.get("b")
    enricher.tick(START + 1000)
    assert table.asked == [["b"], ["a"]]
    assert enricher.get("b").value == "B"


def test_the_reserve_is_a_part_of_the_budget_and_what_misses_leave_is_for_refreshes(
    make: Callable[..., Enricher], table: Table
) -> None:
    enricher = make(budget="4/s", reserve=0.5)
    rows = enricher.get_many("abcdefgh")
    assert [row.value for row in rows] == ["A", "B", "C", "D", *[None] * 4]
    assert rows[-1].error == "no budget is left for it now"
    assert len(table.asked) == 4  # the first round needed nothing, so misses have all of it
    enricher.tick(START + 1000)
    assert len(table.asked) == 6  # half is kept for misses
    enricher.tick(START + 2000)
    assert len(table.asked) == 10  # nobody took it, so this round has it


def test_batches_ask_for_many_keys_in_a_request(make: Callable[..., Enricher], table: Table) -> None:
    enricher = make(batch=5, budget="2/s")
    assert [row.value for row in enricher.get_many("abcdefg")] == list("ABCDEFG")
    assert sorted(map(len, table.asked)) == [2, 5]


def test_a_lookup_that_raises_costs_its_keys_and_leaves_the_old_rows(
    make: Callable[..., Enricher], table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    enricher = make(budget="8/s")
    enricher.get("a")
    table.broken.add("a")
    enricher.tick(START + 1000)
    assert enricher.get("a").value == "A"
    assert enricher.counts.failed == 1
    assert "rows: 1 keys could not be fetched: LookupError: a is broken" in caplog.text
    table.broken.add("b")
    assert enricher.get("b").error == "LookupError: b is broken"


def test_a_key_that_breaks_its_batch_is_found_and_the_others_come(make: Callable[..., Enricher], table: Table) -> None:
    table.broken.add("c")
    enricher = make(batch=4, budget="4/s", missing="without")
    for n in range(1, 12):
        enricher.get_many("abcd")
        enricher.tick(START + 1000 * n)
    assert [row.value for row in enricher.get_many("abcd")] == ["A", "B", None, "D"]


def test_a_lookup_that_returns_no_mapping_is_told(make: Callable[..., Enricher]) -> None:
    row = make(lookup=lambda keys: [1 for _ in keys]).get("a")
    assert row.error == "TypeError: a lookup returns a mapping from keys to rows, not list"


def test_times_that_the_source_publishes_are_believed(make: Callable[..., Enricher]) -> None:
    clock = [START]

    def lookup(keys: list[str]) -> dict[str, Copy]:
        return {key: Copy(key, modified=clock[0], expires=clock[0] + 10_000) for key in keys}

    enricher = make(lookup=lookup, knowledge="published", clock=lambda: clock[0])
    enricher.get("a")
    clock[0] += 1000
    enricher.tick()
    clock[0] += 1000
    assert enricher.get("a").freshness == 1.0


def test_somebody_may_know_that_a_row_has_changed(make: Callable[..., Enricher], table: Table) -> None:
    enricher = make(budget="8/s")
    enricher.get("a")
    enricher.tick(START + 1000)
    table.rows["a"] = "new"
    enricher.forget("a")
    assert enricher.get("a")[:4] == ("new", 1.0, 0, False)


def test_a_full_cache_lets_go_of_the_least_asked_for_however_lately(make: Callable[..., Enricher]) -> None:
    enricher = make(lookup=lambda keys: {key: key for key in keys}, capacity=20, budget="100/s", batch=10)
    for n in range(1, 40):
        enricher.get_many([*range(10), *range(100 * n, 100 * n + 8)])
        enricher.tick(START + 1000 * n)
        assert len(enricher.cache.cells) <= 20
        assert len(enricher.cache.manager.view.srs) <= 20
    assert all(row.hit for row in enricher.get_many(range(10)))
    assert enricher.counts.evicted > 200
    window = enricher.cache.manager.content
    assert int(window.tallies.rows.sum()) == window.size


@pytest.mark.slow
def test_arrays_stay_small_when_keys_never_come_again(make: Callable[..., Enricher]) -> None:
    enricher = make(lookup=lambda keys: {key: key for key in keys}, capacity=50, budget="1000/s", batch=100)
    for n in range(1, 30):
        enricher.get_many(range(1000 * n, 1000 * n + 200))
        enricher.tick(START + 1000 * n)
    assert enricher.cache.manager.view.srs.width < 1000


def test_rounds_are_paid_once_a_step(make: Callable[..., Enricher]) -> None:
    enricher = make(budget="60/min")
    assert enricher.tick(START + 999) is None
    assert enricher.tick(START + 1000) is not None
    with pytest.raises(TimeError, match="time goes backwards"):
        enricher.tick(START)


KEYS = st.sampled_from("abcdefghij")


@given(
    per_second=st.integers(1, 5),
    batch=st.integers(1, 3),
    reserve=st.floats(0, 0.9),
    asked=st.lists(st.lists(KEYS, max_size=8), max_size=15),
    missing=st.sampled_from(["fetch", "without"]),
    broken=st.sets(KEYS, max_size=2),
)
def test_never_more_requests_than_were_paid(
    per_second: int,
    batch: int,
    reserve: float,
    asked: list[list[str]],
    missing: Literal["fetch", "without"],
    broken: set[str],
) -> None:
    table = Table(broken=broken)
    enricher = Enricher(
        table, f"{per_second}/s", batch=batch, reserve=reserve, missing=missing, background=False, capacity=6
    )
    try:
        for n, keys in enumerate(asked):
            enricher.tick(START + 1000 * n)
            assert len(table.asked) <= per_second * (n + 1)
            enricher.get_many(keys)
            assert len(table.asked) <= per_second * (n + 1)
        assert enricher.counts.requests == len(table.asked)
        enricher.cache.ledger.check()
    finally:
        enricher.close()


@pytest.mark.parametrize("gap", [2, 5, 60, 1800])
def test_for_how_long_a_key_counts_is_learned_from_when_keys_come_again(
    make: Callable[..., Enricher], gap: int
) -> None:
    enricher = make(budget="1/s", step="1s" if gap < 60 else f"{gap // 60}s")
    now = START
    for _ in range(40):
        now += 1000 * gap
        enricher.tick(now)
        enricher.get_many("abcdefghij")
    window = enricher.cache.manager.window
    assert 4 * gap <= window.range / 1000 <= 6 * gap
    assert enricher.cache.manager.content.counts(10).sum() == 10 * -(-window.range // (1000 * gap))
    said = make(horizon="10m")
    said.get_many("abc")
    assert said.cache.manager.window.range == 600_000


def test_what_is_held_stays_when_it_is_closed(make: Callable[..., Enricher]) -> None:
    enricher = make()
    enricher.get("a")
    enricher.close()
    assert enricher.get("a").value == "A"
    assert enricher.get("b").error == "the enricher is closed"


def test_settings_are_pickled_and_rows_are_not() -> None:
    enricher = Enricher(dict.fromkeys, "5/s", horizon="1h", background=False)
    other = pickle.loads(pickle.dumps(enricher))
    assert other.settings() == enricher.settings()
    other.close()
    enricher.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"budget": 2}, 'budget=2: so many requests in which period? write "2/s"'),
        ({"budget": "fast"}, """budget='fast' is no budget: write "5/s", "300/min" or "20000/day\""""),
        ({"lookup": "rows"}, "lookup is a function from keys to a mapping of rows, not 'rows'"),
        ({"batch": 0}, "batch is a whole number from 1 on, not 0"),
        ({"missing": "wiat"}, "missing='wiat': did you mean 'wait'?"),
        ({"horizon": "10 parsecs"}, "horizon='10 parsecs': 10 parsecs is no duration"),
        ({"reserve": 1.5}, "reserve is a share of the budget from 0 up to 1, not 1.5"),
        ({"knowledge": "publisht"}, "knowledge='publisht': did you mean 'published'?"),
        ({"policy": "plam"}, "there is no policy 'plam'; did you mean 'plan'?"),
    ],
)
def test_what_cannot_be_is_said_at_once(settings: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"lookup": dict.fromkeys, "budget": "5/s"}
    with pytest.raises(FreshkeeperError) as error:
        Enricher(**(given | settings))
    assert said in str(error.value)


def test_a_lookup_to_be_awaited_is_for_the_other_one() -> None:
    async def lookup(keys: list[str]) -> dict[str, int]:
        return {}

    with pytest.raises(ConfigError, match="lookup is to be awaited: AsyncEnricher does that"):
        Enricher(lookup, "5/s")


def test_a_budget_below_one_request_a_second_is_paid_in_longer_steps() -> None:
    enricher = Enricher(dict.fromkeys, "100/h", background=False)
    assert enricher.every == 36_000
    assert float(enricher.rule().per_evaluation) == 1.0
    enricher.close()


def test_freshness_that_it_tells_is_what_comes_out() -> None:
    """Rows that change by lot at rates nobody tells: of answers said to be fresh with p, p are."""
    rng, clock = np.random.default_rng(1), [START]
    rates = rng.uniform(0.005, 0.2, 40)
    version = np.zeros(40, int)
    with Enricher(
        lambda keys: {key: int(version[key]) for key in keys}, "8/s", background=False, clock=lambda: clock[0]
    ) as enricher:
        said, fresh = [], []
        for n in range(600):
            version += rng.random(40) < 1 - np.exp(-rates)
            enricher.tick()
            for key in rng.integers(0, 40, 20).tolist():
                row = enricher.get(key)
                if n > 100 and row.hit:
                    said.append(row.freshness)
                    fresh.append(row.value == version[key])
            clock[0] += 1000
    assert abs(np.mean(said) - np.mean(fresh)) < 0.05
    high = np.array(said) > 0.8
    assert np.mean(np.array(fresh)[high]) > 0.8
