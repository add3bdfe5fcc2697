"""Rows by key: what reads return, what they cost, and that the budget holds at every instant."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookup_tables import START, Table
from servers import eventually

from freshkeeper import CachedRow, Copy, Enricher, FreshkeeperError, RetryAfter, Row, RowError
from freshkeeper.maintenance.base.errors import ConfigError, InputError

Make = Callable[..., Enricher[Any, Any]]


def test_a_miss_is_fetched_and_the_next_read_is_a_hit(make: Make, table: Table) -> None:
    enricher = make()
    assert enricher.get("a") == ("A", 1.0, 0.0, False, None)
    assert enricher.get("a") == ("A", 1.0, 0.0, True, None)
    assert table.asked == [["a"]]


def test_a_row_that_is_read_often_is_fetched_again_when_doubt_makes_it_worthwhile(
    make: Make, table: Table, clock: Any
) -> None:
    enricher = make()
    for n in range(600):
        clock.forward(1)
        table.rows["a"] = n // 20  # changes every 20 seconds
        enricher.get("a")
    stats = enricher.stats()
    assert 20 <= stats.changed <= 30
    assert stats.requests <= 600
    assert 0.9 < stats.expected_freshness <= 1


def test_rows_that_never_change_are_left_alone_where_others_need_the_budget(make: Make, clock: Any) -> None:
    versions = {"still": 0, "lively": 0}
    fetched = {"still": 0, "lively": 0}

    def lookup(keys: list[str]) -> dict[str, int]:
        for key in keys:
            fetched[key] += 1
        return {key: versions[key] for key in keys}

    enricher = make(lookup=lookup, budget="1/s", bank=60)
    for _ in range(3000):
        clock.forward(0.5)
        versions["lively"] += 1
        enricher.get("still")
        enricher.get("lively")
    assert fetched["lively"] > 20 * fetched["still"]


@pytest.mark.parametrize("on_stale", ["wait", "serve"])
def test_the_read_of_a_stale_row_waits_or_gets_the_old_one(make: Make, table: Table, clock: Any, on_stale: str) -> None:
    enricher = make(on_stale=on_stale)
    enricher.get("a")
    table.rows["a"] = "new"
    enricher.invalidate("a")
    clock.forward(1)
    assert enricher.get("a").value == "new"  # an invalid row is never served while a fetch can be had
    for _ in range(2000):
        clock.forward(10)
        table.rows["b"] = clock.ms
        row = enricher.get("b")
    assert row.hit is (on_stale == "serve")
    assert (row.value == clock.ms) is (on_stale == "wait")


def test_a_read_may_demand_a_young_or_a_right_row(make: Make, table: Table, clock: Any) -> None:
    enricher = make(budget="1/min", bank="1h")
    enricher.get("a")
    table.rows["a"] = "new"
    clock.forward(5)
    assert enricher.get("a", max_age=10).value == "A"
    assert enricher.get("a", max_age="2s").value == "new"
    table.rows["a"] = "newer"
    clock.forward(3600)
    assert enricher.get("a", min_freshness=0.999).value == "newer"


def test_a_read_that_does_not_wait_gets_what_is_there(make: Make, table: Table, clock: Any) -> None:
    enricher = make()
    enricher.get("a")
    clock.forward(5)
    table.rows["a"] = "new"
    assert enricher.get("a", max_age=1, max_wait=0).value == "A"
    assert enricher.get("a").value == "new"  # it was fetched behind the read


def test_a_row_that_the_source_does_not_have_is_none_and_remembered(make: Make, table: Table) -> None:
    enricher = make()
    assert enricher.get("zzz")[:2] == (None, 1.0)
    assert enricher.get("zzz").hit
    assert enricher.get("zzz").require() is None
    assert table.asked == [["zzz"]]


def test_events_come_with_their_rows(make: Make) -> None:
    events = [{"product": "a", "n": 1}, {"product": "b", "n": 2}, {"product": "a", "n": 3}]
    found = [(event["n"], row.value) for event, row in make().join(events, key="product")]
    assert found == [(1, "A"), (2, "B"), (3, "A")]
    assert [row.value for _, row in make().join([("x", "a")], key=1)] == ["A"]
    assert [row.value for _, row in make().join(["B"], key=str.lower)] == ["B"]


def test_a_list_of_events_shares_requests_and_a_stream_is_answered_event_by_event(make: Make, table: Table) -> None:
    enricher = make(batch=4)
    list(enricher.join(list("abcd"), key=str.lower))
    assert table.asked == [["a", "b", "c", "d"]]
    stream = enricher.join(iter("ef"), key=str.lower)
    next(stream)
    assert table.asked[1:] == [["e"]]


def test_an_event_without_a_key_is_shown(make: Make) -> None:
    with pytest.raises(InputError, match=r"the event \{'n': 1\} has no key: KeyError: 'product'"):
        list(make().join([{"n": 1}], key="product"))
    with pytest.raises(InputError, match="None is not a key"):
        make().get(None)


def test_the_budget_is_a_bucket_and_misses_come_first(make: Make, table: Table, clock: Any) -> None:
    enricher = make(budget="4/s", bank=2)  # 8 at most, half full in the beginning
    rows = enricher.get_many("abcdefgh")
    assert [row.value for row in rows] == ["A", "B", "C", "D", *[None] * 4]
    assert rows[-1].error == "the budget is spent; the next request can be paid in 0.2 s"
    with pytest.raises(RowError, match="the budget is spent"):
        rows[-1].require()
    clock.forward(0.25)
    assert enricher.get("e").value == "E"
    assert len(table.asked) == 5


def test_budgets_may_be_fractions_and_change_while_running(make: Make, table: Table, clock: Any) -> None:
    enricher = make(budget="0.5/s", bank=4)
    enricher.get_many("abc")
    assert len(table.asked) == 1
    clock.forward(2)
    enricher.get_many("abc")
    assert len(table.asked) == 2
    enricher.set_budget("100/s", bank=1)
    clock.forward(0.1)
    assert [row.value for row in enricher.get_many("abcdefghij")] == list("ABCDEFGHIJ")


def test_keys_share_requests_and_riders_fill_them(make: Make, table: Table, clock: Any) -> None:
    enricher = make(batch=5, budget="2/s")
    assert [row.value for row in enricher.get_many("abcdefg")] == list("ABCDEFG")
    assert sorted(map(len, table.asked)) == [2, 5]
    for _ in range(5):
        clock.forward(60)
        table.rows |= dict.fromkeys("abcd", clock.ms)
        enricher.get_many("abcd")
    table.asked.clear()
    clock.forward(60)
    enricher.get("a", max_age=1)
    assert len(table.asked[0]) > 1  # b, c and d ride along


def test_a_lookup_that_raises_costs_its_keys_alone_and_old_rows_stay(make: Make, table: Table, clock: Any) -> None:
    enricher = make()
    enricher.get("a")
    table.broken |= {"a", "b"}
    clock.forward(5)
    row = enricher.get("a", max_age=1)
    assert (row.value, row.error) == ("A", "LookupError: a is broken")
    assert enricher.get("b").error == "LookupError: b is broken"
    assert enricher.get("b").error == "LookupError: b is broken; tried again in 2 s"
    table.broken.clear()
    clock.forward(2)
    assert enricher.get("b").value == "B"
    assert enricher.stats().failed == 2


def test_without_stale_if_error_a_failed_refresh_gives_no_row(make: Make, table: Table, clock: Any) -> None:
    enricher = make(stale_if_error=False)
    enricher.get("a")
    table.broken.add("a")
    clock.forward(5)
    assert enricher.get("a", max_age=1) == CachedRow.failed("LookupError: a is broken")


def test_a_key_that_breaks_its_batch_is_found_by_halving(make: Make, table: Table) -> None:
    table.broken.add("c")
    enricher = make(batch=4, budget="10/s")
    assert [row.value for row in enricher.get_many("abcd")] == ["A", "B", None, "D"]
    assert table.asked == [["a", "b", "c", "d"], ["a", "b"], ["c", "d"], ["c"], ["d"]]


def test_keys_that_always_fail_leave_the_others_alone(make: Make, table: Table, clock: Any) -> None:
    failing = [f"x{n}" for n in range(100)]
    table.broken |= set(failing)
    enricher = make(budget="2/s")
    right = 0
    for n in range(4000):
        clock.forward(0.1)
        table.rows["a"] = n // 50
        enricher.get(failing[n % 100])
        right += enricher.get("a").value == n // 50
    assert right > 3400
    assert sum(key != "a" for keys in table.asked for key in keys) < 100 + 0.15 * len(table.asked)


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ([1], "TypeError: a lookup returns a mapping from keys to rows, not list"),
        (
            {"5": "row"},
            "TypeError: the lookup was asked for 5 (int) and returned only other keys, such as '5' (str): "
            "return the keys as they were given",
        ),
    ],
)
def test_a_lookup_that_returns_something_else_is_explained(make: Make, found: Any, error: str) -> None:
    assert make(lookup=lambda keys: found).get(5).error == error


@pytest.mark.parametrize("raised", [SystemExit("bye"), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_lookup_raises_in_its_thread_costs_its_own_read_only(raised: BaseException) -> None:
    answers = iter([raised])

    def lookup(keys: list[str]) -> dict[str, str]:
        for error in answers:
            raise error
        return dict.fromkeys(keys, "row")

    with Enricher(lookup, "100/s") as enricher:
        assert type(raised).__name__ in str(enricher.get("a").error)
        assert enricher.get("b").value == "row"


def test_a_source_that_says_when_to_come_back_is_left_alone_until_then(make: Make, table: Table) -> None:
    asked = []

    def lookup(keys: list[str]) -> dict[str, str]:
        asked.append(keys)
        raise RetryAfter(30)

    enricher = make(lookup=lookup)
    paused = "source 'rows': the source wants no request for 30 s; paused for 30 s"
    assert [enricher.get(key).error for key in "ab"] == [paused, paused]
    assert asked == [["a"]]
    assert enricher.stats().paused == paused


def test_a_rate_limit_is_apart_from_the_budget(make: Make) -> None:
    enricher = make(budget="1000/s", rate_limit="2/min")
    found = enricher.get_many("abc")
    assert [row.value for row in found] == ["A", "B", None]
    assert found[-1].error == "source 'rows': the rate limit is reached"


def test_dates_of_the_source_are_believed(make: Make, clock: Any) -> None:
    def lookup(keys: list[str]) -> dict[str, Row[str]]:
        return {key: Row(key, modified=int(clock.ms) - 1000, expires=int(clock.ms) + 10_000) for key in keys}

    enricher = make(lookup=lookup)
    enricher.get("a")
    clock.forward(9)
    assert enricher.get("a").freshness == 1.0
    clock.forward(60)
    assert enricher.get("a", max_wait=0).freshness < 1.0
    assert make(lookup=lambda keys: {key: Copy(key) for key in keys}).get("a").value == "a"


def test_a_hint_brings_a_fetch_forward_and_false_alarms_wear_it_out(make: Make, table: Table, clock: Any) -> None:
    enricher = make(budget="1/s")
    rng = iter(range(10**6))
    for n in range(200):
        clock.forward(10)
        if n % 2:
            table.rows["a"] = next(rng)
            enricher.may_have_changed("a")
        assert enricher.get("a").value == table.rows["a"] or n < 30
    good = enricher._engine.cache.hints.precision
    for _ in range(200):
        clock.forward(10)
        enricher.may_have_changed("a")
        enricher.get("a", min_freshness=0.99)
    assert good > 0.8
    assert enricher._engine.cache.hints.precision < 0.3
    assert "a" in enricher


@pytest.mark.parametrize(("announced", "silence"), [(1.0, 0.05), (0.5, 0.5), (0.0, 1.0)])
def test_silence_is_believed_as_far_as_hints_announced_the_changes_so_far(
    make: Make, table: Table, clock: Any, announced: float, silence: float
) -> None:
    enricher = make(budget="1/s")
    for n in range(400):
        clock.forward(10)
        table.rows["a"] = n
        if n % 2 < 2 * announced:
            enricher.may_have_changed("a")
        enricher.get("a", max_age=0)
    assert enricher._engine.rates.unannounced == pytest.approx(silence, abs=0.02)
    clock.forward(1.5)
    rate = enricher._engine.rates.of_row(enricher._engine.rows["a"])
    without_hints = rate._replace(scale=rate.scale * enricher._engine.rates.unannounced)
    believed = enricher.get("a", max_wait=0).freshness
    assert believed == pytest.approx(without_hints.probability(1500 * silence), abs=0.02)
    assert believed > 0.9 or announced < 1


def test_rows_are_put_invalidated_forgotten_and_cleared(make: Make, table: Table, clock: Any) -> None:
    enricher = make()
    enricher.put("a", "mine")
    assert enricher.get("a").value == "mine"
    assert table.asked == []
    enricher.put("a", "older", at=START / 1000 - 10)
    assert enricher.get("a").value == "mine"
    enricher.invalidate("a")
    assert enricher.get("a").value == "A"
    enricher.forget("a")
    assert ("a" in enricher, len(enricher)) == (False, 0)
    enricher.get_many("abc")
    enricher.clear()
    assert len(enricher) == 0


def test_an_invalid_row_survives_where_the_budget_is_spent(make: Make) -> None:
    enricher = make(budget="2/h", bank="1h")
    enricher.get("a")
    enricher.get("b")
    enricher.invalidate("a")
    assert enricher.get("a")[:2] == ("A", 0.0)


def test_a_row_changed_by_its_user_does_not_count_as_changed_at_the_source(make: Make, clock: Any) -> None:
    enricher = make(lookup=lambda keys: {key: {"price": 2} for key in keys})
    enricher.get("a").value["note"] = "mine"
    clock.forward(5)
    enricher.get("a", max_age=1)
    assert (enricher.stats().refreshed, enricher.stats().changed) == (1, 0)


class Sly:
    """A row that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("row", [Sly(), {1, 2}, {"b": [1, (2.0, None)]}, b"x", math.inf])
def test_rows_of_every_kind_can_be_fetched_again(make: Make, clock: Any, row: object) -> None:
    enricher = make(lookup=lambda keys: dict.fromkeys(keys, row))
    for _ in range(3):
        assert enricher.get("a", max_age=1).error is None
        clock.forward(5)
    assert enricher.stats().changed == 0


def test_arrays_are_rows_too(make: Make, clock: Any) -> None:
    import numpy as np

    rows = {"a": np.zeros(3), "b": np.zeros(3)}
    enricher = make(lookup=lambda keys: {key: rows[key].copy() for key in keys}, batch=10)
    enricher.get_many("ab")
    rows["b"] += 1
    clock.forward(5)
    enricher.get("a", max_age=1)
    enricher.get("b", max_age=1)
    assert enricher.stats().changed == 1


def test_a_full_cache_drops_the_rows_that_are_read_least(make: Make, clock: Any) -> None:
    enricher = make(lookup=lambda keys: {key: key for key in keys}, capacity=50, budget="1000/s", batch=10)
    for n in range(1, 60):
        clock.forward(1)
        for _ in range(3):
            enricher.get_many(range(10))
        enricher.get_many(range(100 * n, 100 * n + 20))
        assert len(enricher) <= 50
    assert sum(row.hit for row in enricher.get_many(range(10))) >= 9
    assert enricher.stats().evicted > 500


KEYS = st.sampled_from("abcdefghij")


@given(
    per_second=st.integers(1, 5),
    batch=st.integers(1, 3),
    bank=st.floats(0.1, 5),
    reads=st.lists(st.tuples(st.floats(0, 3), st.lists(KEYS, max_size=8)), max_size=15),
    on_stale=st.sampled_from(["wait", "serve"]),
    broken=st.sets(KEYS, max_size=2),
)
def test_the_number_of_requests_never_exceeds_the_budget(
    per_second: int,
    batch: int,
    bank: float,
    reads: list[tuple[float, list[str]]],
    on_stale: Any,
    broken: set[str],
) -> None:
    table, clock = Table(broken=broken), [float(START)]
    enricher: Enricher[Any, Any] = Enricher(
        table, f"{per_second}/s", batch=batch, bank=bank, on_stale=on_stale, background=False, capacity=6,
        clock=lambda: clock[0],
    )  # fmt: skip
    most = max(per_second * bank, 1.0)
    for wait, keys in reads:
        clock[0] += 1000 * wait
        enricher.get_many(keys, max_wait=1)
        paid = most + per_second * (clock[0] - START) / 1000
        assert len(table.asked) <= paid + 1e-6
    assert enricher.stats().requests == len(table.asked)
    assert 0 <= enricher.stats().available <= most + 1e-9
    enricher.close()


def test_rows_can_be_read_after_close(make: Make) -> None:
    enricher = make()
    enricher.get("a")
    enricher.close()
    assert enricher.get("a").value == "A"
    assert enricher.get("b").error == "the enricher is closed"


def test_settings_are_pickled_and_rows_are_not() -> None:
    enricher = Enricher(dict.fromkeys, "5/s", bank="1h", background=False)
    enricher.get("a")
    other = pickle.loads(pickle.dumps(enricher))
    assert (other.settings, len(other)) == (enricher.settings, 0)


def test_internals_are_hidden_from_completion(make: Make) -> None:
    assert not [name for name in dir(make()) if name.startswith("_")]
    assert {"get", "join", "stats", "put"} <= set(dir(make()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 2}, 'budget=2: how many requests in which period? Write budget="2/s"'),
        ({"budget": "fast"}, 'budget=\'fast\' is no rate: write "5/s", "0.5/s"'),
        ({"budget": "0/s"}, "budget='0/s' is no rate"),
        ({"lookup": "rows"}, "lookup='rows': pass a function from a list of keys to a mapping of rows"),
        ({"batch": 0}, "batch=0: write a whole number from 1 on"),
        ({"on_miss": "wiat"}, "on_miss='wiat': did you mean 'wait'?"),
        ({"bank": "10 parsecs"}, "bank='10 parsecs': 10 parsecs is no duration"),
        ({"max_wait": -1}, "max_wait=-1: a duration is 0 seconds or longer"),
        ({"audit": 1.5}, "audit=1.5: write a share of the budget from 0 up to 1"),
        ({"target": 95}, "target=95: write a share of right answers, such as 0.95"),
        ({"rate_limit": "10"}, "'10' is no limit"),
        ({"metrics": "here"}, "metrics='here': write \":9100\""),
        ({"store": "x.db", "state": "y"}, "store= and state= are two ways to say where rows are kept"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"lookup": dict.fromkeys, "budget": "5/s"}
    with pytest.raises(FreshkeeperError) as error:
        Enricher(**(given | settings))
    assert message in str(error.value)


def test_a_coroutine_is_for_the_other_enricher() -> None:
    async def lookup(keys: list[str]) -> dict[str, int]:
        return {}

    with pytest.raises(ConfigError, match="lookup is a coroutine function: use AsyncEnricher"):
        Enricher(lookup, "5/s")


@pytest.mark.parametrize(("on_miss", "expected"), [("null", None), ("error", RowError)])
def test_a_miss_need_not_wait(make: Make, on_miss: Any, expected: Any) -> None:
    with Enricher(dict.fromkeys, "5/s", on_miss=on_miss) as enricher:
        if expected is None:
            assert enricher.get("a")[:2] == (None, 0.0)
        else:
            with pytest.raises(RowError, match="'a' is not in the cache; it is being fetched"):
                enricher.get("a")
        assert eventually(lambda: "a" in enricher)
        assert enricher.get("a").hit


def test_a_target_spends_no_more_than_it_takes(clock: Any) -> None:
    def spent(target: float | None) -> tuple[float, float]:
        clock.ms, changed = float(START), [0]
        enricher: Enricher[str, int] = Enricher(
            lambda keys: dict.fromkeys(keys, changed[0]), "2/s", target=target, background=False, clock=clock
        )
        right = 0
        for n in range(20_000):
            clock.forward(0.1)
            changed[0] = n // 100
            right += enricher.get("a").value == changed[0]
        return enricher.stats().spent, right / 20_000

    (full, _), (less, right) = spent(None), spent(0.8)
    assert less < 0.6 * full
    assert 0.7 < right < 0.9


def test_freshness_is_calibrated_and_audits_measure_it(make: Make, clock: Any) -> None:
    """Rows that change at rates nobody tells: of answers believed right with p, a share of p is right."""
    import numpy as np

    rng = np.random.default_rng(1)
    rates, version = rng.uniform(0.005, 0.2, 40), np.zeros(40, int)
    enricher = make(lookup=lambda keys: {key: int(version[key]) for key in keys}, budget="4/s", audit=0.1)
    believed, right = [], []
    for n in range(1500):
        version += rng.random(40) < 1 - np.exp(-rates)
        for key in rng.integers(0, 40, 20).tolist():
            row = enricher.get(key)
            if n > 200 and row.hit:
                believed.append(row.freshness)
                right.append(row.value == version[key])
        clock.forward(1)
    assert abs(np.mean(believed) - np.mean(right)) < 0.03
    high = np.array(believed) > 0.8
    assert np.mean(np.array(right)[high]) > 0.8
    stats = enricher.stats()
    assert stats.audited > 100
    assert stats.measured_freshness == pytest.approx(np.mean(right), abs=0.1)
