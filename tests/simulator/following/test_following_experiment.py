"""The experiments of paper 004: what is measured is of right answers, and all of it is written."""

import csv
from pathlib import Path

import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationEncoding, AnnotationStyle, TimeEncoding
from freshkeeper.simulator.following.annotation_ways import Way, measured, ways
from freshkeeper.simulator.following.following_config import FollowingExperiment, load
from freshkeeper.simulator.following.following_report import later, rows_of, write_report

SMALL = FollowingExperiment(
    trains=4, changes=12, speaking=[AnnotationEncoding.GRAPH], timing=[TimeEncoding.INTERVAL], clients=[]
)


@pytest.mark.parametrize("way", list(ways(SMALL)), ids=lambda way: f"{way.history} {way.cached}")
def test_every_evaluation_has_the_rows_of_the_query(way: Way) -> None:
    found = measured(SMALL, way)
    assert [one.rows for one in found] == [4] * 12
    assert all(one.client_ms > 0 and one.server_ms > 0 for one in found)
    assert found[0].requests > found[-1].requests if way.cached else found[-1].requests > 0


def test_a_history_that_is_read_whole_takes_more_and_more_and_what_holds_now_does_not() -> None:
    many = SMALL.model_copy(update={"trains": 20})
    whole, now = (
        measured(many, Way(AnnotationStyle(AnnotationEncoding.GRAPH, TimeEncoding.INTERVAL), h, cached=True))
        for h in ("whole", "now")
    )
    assert whole[-1].kilobytes > 2 * whole[1].kilobytes
    assert now[-1].kilobytes < 1.1 * now[1].kilobytes


def test_pictures_tables_and_a_page_are_written(tmp_path: Path) -> None:
    small = SMALL.model_copy(update={"changes": 2, "history": ["dropped"], "timing": [TimeEncoding.EXPIRATION]})
    found = [one for way in ways(small) for one in measured(small, way)]
    page = write_report(tmp_path, "Trains & times", "freshkeeper simulate x", found, [], [])
    assert {file.name for file in (tmp_path / "plots").iterdir()} == {"ways-expiration-dropped.png", "caching.png"}
    assert (
        len(rows_of(found)) == len(list(csv.DictReader((tmp_path / "annotations.csv").read_text().splitlines()))) == 4
    )
    text = page.read_text()
    assert "Trains &amp; times" in text
    assert '<th scope="row">graph</th><td>expiration</td>' in text
    assert len(later(found)) == 2


def test_a_key_that_there_is_not_is_an_error_that_suggests_one(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("trains: 3\nclient: 4\n")
    with pytest.raises(ConfigError, match="clients"):
        load(file, {})
