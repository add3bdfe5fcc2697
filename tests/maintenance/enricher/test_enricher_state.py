"""What survives: rows, what is known of their changes, the budget; after a restart, and after kill -9."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookup_tables import START, Table

from freshkeeper import Enricher
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.state.term_text import decode, encode

LIFE = Path(__file__).with_name("enricher_life.py")


def opened(table: Table, place: Path, clock: Callable[..., Any] | None = None, **more: Any) -> Enricher:
    return Enricher(table, "4/s", state=place, background=False, clock=clock, **more)


def test_rows_and_what_is_known_of_them_are_there_after_a_restart(tmp_path: Path) -> None:
    table, clock = Table(), [START]
    with opened(table, tmp_path, lambda: clock[0]) as first:
        for n in range(6):
            table.rows["a"] = n
            first.tick()
            first.get_many("abc")
            clock[0] += 1000
        first.tick()
        before = [first.get(key) for key in "abc"]
    asked = len(table.asked)
    with opened(table, tmp_path, lambda: clock[0]) as second:
        after = [second.get(key) for key in "abc"]
        assert [row.value for row in after] == [row.value for row in before]
        assert [row.freshness for row in after] == pytest.approx([row.freshness for row in before], abs=1e-9)
        assert all(row.hit for row in after)
        assert second.get("d").error == "no budget is left for it now"  # the step was paid already
        assert len(table.asked) == asked
        clock[0] += 1000
        second.tick()
        assert second.get("d").value == "D"
        assert second.cache.ledger.evaluations == 8


def test_the_budget_goes_on_where_it_was(tmp_path: Path) -> None:
    table, clock = Table(), [START]
    for life in range(6):
        with opened(table, tmp_path, lambda: clock[0]) as enricher:
            for _ in range(2):
                enricher.tick()
                enricher.get_many("abcdefghij")
                clock[0] += 400
        paid = 4 * ((clock[0] - START) // 1000 + 1)
        assert len(table.asked) <= paid, life


def test_a_clock_that_was_set_back_goes_on_from_the_last_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, clock = Table(), [START]
    with opened(table, tmp_path, lambda: clock[0]) as first:
        first.tick()
        first.get("a")
        clock[0] += 1000
        first.tick()
    clock[0] -= 3_600_000
    with opened(table, tmp_path, lambda: clock[0]) as second:
        assert "ms behind the last round" in caplog.text
        age = second.get("a").age
        assert age is not None
        assert age < 5000
        clock[0] += 1000
        assert second.tick() is not None


def test_a_state_is_of_one_name_and_one_process(tmp_path: Path) -> None:
    with opened(Table(), tmp_path) as first:
        first.tick(START)
        with pytest.raises(ConfigError, match="is in use"):
            opened(Table(), tmp_path)
    with pytest.raises(ConfigError, match="its name has changed"):
        opened(Table(), tmp_path, name="lines")


@pytest.mark.parametrize("said", ["1h", "20s", None])
def test_a_horizon_is_learned_over_restarts_and_may_be_another_one_then(tmp_path: Path, said: str | None) -> None:
    table, clock = Table(), [START]

    def live(rounds: int, **more: str | None) -> tuple[int, Floats]:
        with opened(table, tmp_path, lambda: clock[0], **more) as enricher:
            for _ in range(rounds):
                enricher.get_many("abcd")
                enricher.tick()
                clock[0] += 1000
            manager = enricher.cache.manager
            return manager.window.range, manager.content.tallies.rates.per_evaluation(4) / manager.window.step

    learned, rates = live(40)
    assert learned == 8000
    again, same = live(3, horizon=said)
    assert again == {"1h": 3_600_000, "20s": 20_000, None: 8000}[said]
    assert same == pytest.approx(rates, rel=0.1)
    assert live(3)[0] == again  # too few gaps to learn another


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.dates()
    | st.datetimes(timezones=st.just(UTC)) | st.decimals(allow_nan=False) | st.uuids() | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(VALUES)
def test_rows_of_any_plain_values_are_kept_as_they_are(value: object) -> None:
    (again,) = decode([encode(value)])
    assert again == value
    assert type(again) is type(value)


def test_rows_as_drivers_give_them_are_kept() -> None:
    row = {
        "id": UUID(int=1),
        "price": Decimal("2.50"),
        "since": datetime(2026, 1, 2, tzinfo=UTC),
        "day": date(2026, 1, 2),
    }
    row |= {"lasts": timedelta(days=1), "picture": b"\x00", "tags": ["a", ("b", 1)]}
    assert decode([encode(row)]) == [row]
    with pytest.raises(InputError, match="cannot be kept"):
        encode(object())


@pytest.mark.slow
def test_killed_ten_times_it_never_asks_for_more_than_was_paid(tmp_path: Path) -> None:
    held = []
    for life in range(10):
        process = subprocess.Popen(
            [sys.executable, str(LIFE), str(tmp_path), str(life)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        held.append(int(process.stdout.readline()))
        try:
            process.wait(0.15 + 0.04 * life)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        process.stdout.close()
    asked = [int(line) for line in (tmp_path / "asked.log").read_text().splitlines()]
    assert len(asked) > 25
    assert held[-1] > 5  # rows of earlier lives
    began = asked[0] - 50
    for n, at in enumerate(asked, 1):
        assert n <= 2 * ((at - began) // 50 + 2), (n, at - began)
