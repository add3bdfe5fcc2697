"""How often keys are read, and which rows make room."""

import pytest

from freshkeeper.maintenance.enricher.row_table import Entry, RowTable


def read(table: RowTable, entry: Entry, times: int, now: float) -> None:
    """Count reads of a key until now."""
    for _ in range(times):
        table.reads += 1
        entry.reads += 1
        table.fade_reads(entry)
    table.measure_pace(now)


def filled(rows: int) -> tuple[RowTable, list[Entry]]:
    """Return a table whose rows were read once each, one in a millisecond."""
    table = RowTable(capacity=100, now=0.0)
    entries = []
    for n in range(rows):
        table.reads += 1
        entries.append(table.insert(n, float(n))[0])
        table.measure_pace(float(n + 1))
    return table, entries


def test_a_key_read_once_is_taken_to_be_read_as_the_average_key() -> None:
    table, entries = filled(100)
    share = 1.5 / 100  # its read and half a one, in as many reads as there are rows
    assert table.read_rate(entries[-1]) == pytest.approx(share * table.pace)


def test_a_popular_key_keeps_its_share_however_often_its_reads_are_halved() -> None:
    table, entries = filled(100)
    for n in range(1, 41):
        read(table, entries[0], 50, 100.0 * n + 50)
        read(table, entries[1], 50, 100.0 * n + 100)
    assert entries[0].reads <= 64
    assert table.pace == pytest.approx(1.0, rel=0.05)
    assert table.read_rate(entries[0]) == pytest.approx(0.5, rel=0.25)


def test_rates_follow_the_pace_of_the_present_hour() -> None:
    table, entries = filled(10)
    read(table, entries[0], 2000, 2_000.0)
    busy = table.read_rate(entries[0])
    read(table, entries[0], 200, 202_000.0)
    assert table.read_rate(entries[0]) == pytest.approx(busy / 1000, rel=0.05)


def test_the_popularity_of_a_key_is_forgotten_within_as_many_reads_as_it_took() -> None:
    table, entries = filled(10)
    for n in range(10):
        read(table, entries[0], 100, 1000.0 * n)
    for n in range(10, 60):
        read(table, entries[1], 100, 1000.0 * n)
    assert table.read_rate(entries[0]) < 0.02 * table.read_rate(entries[1])


def test_rows_make_room_that_are_read_least_or_change_before_they_are_read_again() -> None:
    table, (steady, restless, seldom) = filled(3)
    for n in range(100):
        read(table, steady, 10, 1000.0 * n + 300)
        read(table, restless, 10, 1000.0 * n + 600)
    for _ in range(200):
        table.rates.learn(steady, 100_000.0, changed=False)
        table.rates.learn(restless, 20.0, changed=True)
    worths = {entry.key: table.keeping_worth(entry) for entry in (steady, restless, seldom)}
    reads, changes = table.read_rate(restless), table.rates.of_row(restless).mean
    assert worths[1] == pytest.approx(reads**2 / (reads + changes))
    assert worths[0] == pytest.approx(table.read_rate(steady), rel=0.01)
    assert worths[1] < 0.7 * worths[0]
    assert worths[2] < worths[0] / 50
    table.capacity = 3
    assert table.insert(3, 0.0)[1] == [2]
