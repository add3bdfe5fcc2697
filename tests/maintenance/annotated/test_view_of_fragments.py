"""A view over fragments: its answers are right, its budget holds, and what a refresh costs is told by its pages."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from fragment_sites import FragmentSite
from pyoxigraph import NamedNode, RdfFormat, Triple, parse
from terms import text_of

from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.query.parser import parse as query_of
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.runtime.embedded_query import continuous_query, run
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import load_source, source_of
from freshkeeper.maintenance.streams.batch import Elements

E = "http://e/"
DATA = """:jazz :by :ann, :bob . :rock :by :bob, :cyd . :folk :by :dan .
:ann :n 10 . :bob :n 20 . :cyd :n 30 . :dan :n 40"""
QUERY = f"""PREFIX : <{E}> SELECT ?topic ?user ?n FROM NAMED WINDOW :w ON :s [RANGE PT3S STEP PT1S]
{{ WINDOW :w {{ ?post :about ?topic }} SERVICE :x {{ ?topic :by ?user . ?user :n ?n }} }}"""


def posts() -> Elements:
    return Elements(
        [
            (1000 * n, Triple(NamedNode(f"{E}p{n}"), NamedNode(f"{E}about"), NamedNode(f"{E}{topic}")))
            for n, topic in enumerate(["jazz", "rock", "jazz", "folk", "rock"] * 2, 1)
        ]
    )


@pytest.mark.parametrize(("batch", "budget"), [(1, 5), (3, 8)])
def test_answers_are_those_of_the_source_within_the_budget(
    sites: Callable[..., FragmentSite], batch: int, budget: int
) -> None:
    site = sites(list(parse(f"PREFIX : <{E}> {DATA} .", format=RdfFormat.TURTLE)))
    config = {"fragments": site.url, "volatile": f"{E}n", "batch": batch, "reuse": False}
    source = source_of(config_of(config, "test"))
    query = continuous_query(QUERY, {f"{E}x": source}, budget=budget, policy="lru")
    asked, found = [0], []
    for result in run(query, {f"{E}s": posts()}):
        asked.append(len(site.targets))
        found.append(
            {(text_of(row["topic"]), text_of(row["user"]), text_of(row["n"])) for row, _ in result.solutions()}
        )
    source.transport.close()
    steps = [after - before for before, after in pairwise(asked)]
    assert max(steps) <= budget, "every page is paid"
    by = {"jazz": {"ann": "10", "bob": "20"}, "rock": {"bob": "20", "cyd": "30"}, "folk": {"dan": "40"}}
    right = {(E + topic, E + user, n) for topic, users in by.items() for user, n in users.items()}
    assert set().union(*found) == right


def test_what_a_source_says_that_cannot_be_right_is_told_when_a_run_ends(sites: Callable[..., FragmentSite]) -> None:
    source = load_source(f"fragments:{sites(list(parse(f'PREFIX : <{E}> {DATA} .', format=RdfFormat.TURTLE))).url}")
    assert source.transport.warnings() == []
    assert isinstance(source.transport.service, FragmentsOverHttp)
    source.transport.service.counts.liars = 2
    assert "2 fragments had a wrong count" in source.transport.warnings()[0]
    source.transport.close()


def test_a_refresh_costs_a_page_for_each_pattern_and_a_miss_those_of_the_static_part_too() -> None:
    source = source_of(config_of({"fragments": "http://e/", "volatile": f"{E}n", "batch": 4}, "test"))

    (service,) = query_of(QUERY).services
    refresh, miss = source.prices(split(service, [f"{E}n"], ["topic"]))
    assert refresh == Price(batch=4, pages=1)
    assert miss == Price(batch=4, pages=2)
    assert (refresh.of(4), miss.of(5)) == (1, 4)
    source.transport.close()


def test_a_pattern_that_joins_nothing_is_asked_as_it_stands_however_many_pages_it_takes(
    sites: Callable[..., FragmentSite],
) -> None:
    site = sites(list(parse(f"PREFIX : <{E}> {DATA} .", format=RdfFormat.TURTLE)), per_page=2)
    query = f"PREFIX : <{E}> SELECT (COUNT(*) AS ?many) {{ SERVICE :x {{ ?topic :by ?user . ?user :n ?n }} }}"
    source = load_source(f"fragments:{site.url}")
    (result,) = run(continuous_query(query, {f"{E}x": source}, fetch="always"), {})
    source.transport.close()
    assert [text_of(row["many"]) for row, _ in result.solutions()] == ["5"]
    assert len(site.targets) > 2
