"""Queries over data that say how long they hold: split, asked again when they expire, never delivered beyond that."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from annotated_worlds import START, STYLES, InProcessPool, Time
from pyoxigraph import Literal, NamedNode, Quad, Triple
from terms import solutions

from freshkeeper.maintenance.annotated.annotated_data import AnnotatedData, read_elements_file
from freshkeeper.maintenance.annotated.annotated_query import AnnotatedQuery, CurrentAnswers
from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource, PageRequests
from freshkeeper.maintenance.annotated.following import FollowedQuery, Pauses
from freshkeeper.maintenance.annotated.fragment_server import FragmentServer
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.http.exchange import Call, HttpResponse
from freshkeeper.maintenance.fetching.rate_limiter import Breaker, Limit, Rate, RateLimiter
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.model import Operator
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    AnnotationEncoding,
    AnnotationStyle,
    TimedTriple,
    TimeEncoding,
)
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.simulator.trace.trains import trains

T = "http://example.org/train/"
QUERY = f"""PREFIX t: <{T}> SELECT ?id ?delay ?platform ?sign ?route ?at
{{ ?id t:delay ?delay . ?id t:platform ?platform .
?id t:headSign ?sign . ?id t:routeLabel ?route . ?id t:departureTime ?at }}"""
GRAPHS = AnnotationStyle()


def world(
    style: AnnotationStyle = GRAPHS,
    number: int = 10,
    lasts: int = 10_000,
    until: int = 600_000,
    clock: Time | None = None,
    elements: list[TimedTriple] | None = None,
    history: bool = False,
    found: bool = False,
    **more: Any,
) -> tuple[Time, list[TimedTriple], list[Quad], InProcessPool, Callable[..., Any]]:
    time = clock or Time()
    static, held = trains(number, lasts, START + until, START - START % lasts)
    held = held if elements is None else elements
    data = AnnotatedData(static, held, style, "http://source/data", history)
    server = FragmentServer(data, lambda: time.ms + time.ahead, "/data")
    pool = InProcessPool(server, time)
    client = FragmentsOverHttp("http://source/data", pool=pool, wall=lambda: time.ms / 1000)
    limiter = RateLimiter(clock=lambda: time.ms / 1000, wall=lambda: time.ms / 1000)
    requests = PageRequests(limiter, pause=time.pause)
    source = AnnotatedSource(client, None if found else style, requests=requests)
    return time, held, static, pool, partial(AnnotatedQuery, [source], **more)


def true_at(held: list[TimedTriple], static: list[Quad], at: int) -> Counter[tuple[str, ...]]:
    """What the query answers at an instant of the source's clock, by its elements."""
    now = {
        (h.triple.subject, h.triple.predicate.value.removeprefix(T)): h.triple.object
        for h in held
        if h.since <= at < h.until
    }
    fixed = {(q.subject, q.predicate.value.removeprefix(T)): q.object for q in static}
    both = now | fixed
    names = ("delay", "platform", "headSign", "routeLabel", "departureTime")
    rows = ([s, *(both.get((s, name)) for name in names)] for s in dict.fromkeys(q.subject for q in static))
    return Counter(tuple(map(str, row)) for row in rows if None not in row)


def rows_of(moment: CurrentAnswers) -> Counter[tuple[str, ...]]:
    names = ("id", "delay", "platform", "sign", "route", "at")
    return Counter(tuple(str(row[name]) for name in names) for row in moment.rows)


@pytest.mark.parametrize("style", STYLES, ids=lambda style: f"{style.speaking}-{style.timing}")
def test_answers_are_true_in_every_style_at_every_expiry(style: AnnotationStyle) -> None:
    time, held, static, _, source = world(style, number=5)
    following = FollowedQuery(source(QUERY), pauses=Pauses(skew=10))
    for n, delivered in enumerate(following.run(time.sleep)):
        moment = delivered.moment
        assert following.parts is not None
        assert {p.value.removeprefix(T) for p in following.parts.dynamic} == {"delay", "platform"}
        assert rows_of(moment) == true_at(held, static, moment.at), n
        assert rows_of(moment) == true_at(held, static, moment.until - 1)
        assert moment.since <= moment.at < moment.until
        assert not moment.odd
        if n == 5:
            break
    assert following.evaluations == 6


@pytest.mark.slow
@pytest.mark.parametrize(("trains_", "minutes", "ahead"), [(100, 20, 0), (20, 20, 7_300), (20, 20, -4_900)])
def test_hours_of_trains_have_no_answer_beyond_its_interval(trains_: int, minutes: int, ahead: int) -> None:
    time = Time(ahead=ahead)
    time.ms += 20_000
    time, held, static, pool, source = world(number=trains_, until=minutes * 60_000 + 60_000, clock=time)
    following = FollowedQuery(source(QUERY), pauses=Pauses(skew=100))
    began, wrong = time.ms, 0
    for delivered in following.run(time.sleep):
        at = time.ms + time.ahead
        wrong += not (delivered.moment.since <= at < delivered.moment.until)
        if following.evaluations % 60 == 1:
            assert rows_of(delivered.moment) == true_at(held, static, at)
        if time.ms - began > minutes * 60_000 - 20_000:
            break
    assert wrong == 0
    expiries = len({one.until for one in held if began + ahead < one.until <= time.ms + ahead})
    assert abs(following.evaluations - 1 - expiries) <= 1, "once for every expiry, and at the beginning"
    assert sum("headSign" in target for target in pool.targets) == 1


def test_clocks_that_disagree_are_told() -> None:
    for ahead, said in ((90_000, "its clock is 90 s ahead of ours"), (-90_000, "its clock is 89 s behind ours")):
        time, held, static, _, source = world(number=3, clock=Time(ahead=ahead))
        query = source(QUERY)
        moment = query.evaluate(query.parts())
        assert rows_of(moment) == true_at(held, static, time.ms + ahead)
        assert said in query.sources[0].client.warnings()[0]
    *_, source = world(number=3)
    query = source(QUERY)
    query.evaluate(query.parts())
    assert query.sources[0].client.warnings() == []


def test_a_predicate_of_which_there_is_nothing_yet_may_change() -> None:
    _, held = trains(2, 10_000, START + 100_000, START + 30_000)
    for style in STYLES:
        time, *_, source = world(style, elements=held, number=2)
        following = FollowedQuery(source(QUERY))
        seen = []
        for delivered in following.run(time.sleep):
            seen.append(len(delivered.rows))
            if seen[-1] or following.evaluations > 30:
                break
        assert seen[-1] == 2, style


def test_static_parts_are_asked_for_once_and_dynamic_ones_whenever_they_expire() -> None:
    time, _, _, pool, source = world()
    following = FollowedQuery(source(QUERY))
    for delivered in following.run(time.sleep):
        last = delivered.moment
        if following.evaluations == 4:
            break
    assert last.requests <= 4
    for name, times in (("headSign", 1), ("routeLabel", 1)):
        assert sum(name in target for target in pool.targets) == times


def test_an_evaluation_of_a_hundred_trains_takes_twelve_requests_at_most() -> None:
    _, held, static, pool, source = world(number=100)
    query = source(QUERY)
    moment = query.evaluate(query.parts())
    assert rows_of(moment) == true_at(held, static, moment.at)
    assert len(pool.targets) <= 12


def test_what_changes_may_be_said_by_hand() -> None:
    *_, pool, source = world(dynamic=frozenset([NamedNode(f"{T}delay"), NamedNode(f"{T}platform")]))
    assert len(source(QUERY).parts().dynamic) == 2
    assert not pool.targets


def test_where_nothing_holds_it_backs_off_and_comes_back() -> None:
    _, held = trains(2, 10_000, START + 10_000, START)
    later = [TimedTriple(one.triple, one.since + 60_000, one.until + 260_000) for one in held]
    for twice, most in ((False, 9), (True, 40)):
        time, *_, source = world(elements=[*held, *later], number=2)
        following = FollowedQuery(source(QUERY), pauses=Pauses(twice=twice))
        seen = []
        for delivered in following.run(time.sleep):
            seen.append(len(delivered.rows))
            if (seen[-1] and following.evaluations > 1) or following.evaluations > 50:
                break
        assert seen[0] == seen[-1] == 2
        assert set(seen[1:-1]) == {0}
        assert following.evaluations <= most


def test_a_source_that_does_not_answer_is_asked_again_later_and_nothing_old_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time, held, static, pool, source = world()
    following = FollowedQuery(source(QUERY))
    exchange, away = pool.exchange, range(START + 15_000, START + 45_000)

    def failing(call: Call, deadline: Deadline) -> HttpResponse:
        if time.ms in away:
            assert deadline.may_send()
            time.ms += 5
            raise FetchError("connection: it broke", again=True)
        return exchange(call, deadline)

    monkeypatch.setattr(pool, "exchange", failing)
    for delivered in following.run(time.sleep):
        assert rows_of(delivered.moment) == true_at(held, static, delivered.moment.at)
        assert time.ms not in away
        if time.ms > START + 60_000:
            break
    assert 3 <= following.failed <= 7


def test_new_and_gone_answers() -> None:
    time, *_, source = world(number=3)
    for operator, counts in ((Operator.ISTREAM, [3, 3]), (Operator.DSTREAM, [0, 3])):
        following = FollowedQuery(source(QUERY), operator)
        found = []
        for delivered in following.run(time.sleep):
            found.append(len(delivered.rows))
            if len(found) == 2:
                break
        assert found == counts


def test_jitter_delays_and_never_hastens() -> None:
    time, *_, source = world()
    following = FollowedQuery(source(QUERY), pauses=Pauses(skew=50, jitter=500), random=Random(1))
    untils, ats = [], []
    for delivered in following.run(time.sleep):
        ats.append(delivered.moment.at)
        untils.append(delivered.moment.until)
        if len(ats) == 5:
            break
    assert all(50 <= at - until <= 700 for at, until in zip(ats[1:], untils, strict=False))


@pytest.mark.parametrize("holding", [True, False])
@pytest.mark.parametrize("style", [style for style in STYLES if style.timing is not TimeEncoding.EXPIRATION], ids=str)
def test_a_history_that_is_kept_changes_no_answer(style: AnnotationStyle, holding: bool) -> None:
    time, held, static, _, source = world(style, number=2, history=True)
    following = FollowedQuery(source(QUERY))
    following.query.sources[0].holding = holding
    for delivered in following.run(time.sleep):
        assert rows_of(delivered.moment) == true_at(held, static, delivered.moment.at)
        assert not delivered.moment.odd
        if time.ms > START + 100_000:
            break


def test_a_query_of_static_data_alone_is_answered_once() -> None:
    time, *_, source = world()
    following = FollowedQuery(source(f"SELECT * {{ ?id <{T}headSign> ?sign }}"))
    assert [len(delivered.rows) for delivered in following.run(time.sleep)] == [10]


@pytest.mark.parametrize(
    "pattern",
    [
        "?id t:headSign ?s OPTIONAL { ?id t:delay ?d FILTER(?d > 3) }",
        "?id t:headSign ?s MINUS { ?id t:delay 3 }",
        "?id t:headSign ?s FILTER NOT EXISTS { ?id t:platform 1 }",
        "{ SELECT ?d (COUNT(*) AS ?n) { ?id t:delay ?d } GROUP BY ?d }",
        "?id t:delay ?d ; t:headSign ?s ; .",
        "?id t:headSign ?s ; t:delay ?d , ?e FILTER(?d = ?e)",
        "_:id t:delay ?d ; t:platform ?p . _:id t:headSign ?s",
        "[] t:delay ?d ; t:platform ?p",
        "[ t:delay ?d ] t:headSign ?s",
    ],
)
def test_whatever_stands_around_a_dynamic_pattern_the_answers_are_those_of_what_holds(pattern: str) -> None:
    from pyoxigraph import Quad, Store

    query = f"PREFIX t: <{T}> SELECT * {{ {pattern} }}"
    for style in (
        AnnotationStyle(),
        AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.FLAT),
        AnnotationStyle(AnnotationEncoding.IMPLICIT, TimeEncoding.INTERVAL),
    ):
        _, held, static, _, source = world(style)
        asked = source(query)
        moment = asked.evaluate(asked.parts())
        store = Store()
        store.extend(static)
        for one in held:
            if one.since <= moment.at < one.until:
                store.add(Quad(one.triple.subject, one.triple.predicate, one.triple.object))
        assert Counter(str(sorted(row.items(), key=str)) for row in moment.rows) == Counter(
            str(sorted(((v.value, row[v]) for v in found.variables if row[v] is not None), key=str))
            for found in [solutions(store.query(query))]
            for row in found
        )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * { GRAPH ?g { ?s <a:p> ?o } }", "not part of the data"),
        ("SELECT * { SERVICE <http://other/> { ?s <a:p> ?o } }", "--source; there is http://source/data"),
        ("SELECT * { SERVICE ?any { ?s <a:p> ?o } }", "SERVICE .any is not a followed source"),
        (
            "SELECT * { SERVICE <http://source/data> { GRAPH <a:g> { ?s <a:p> ?o } } }",
            "GRAPH is not supported inside SERVICE",
        ),
        ("SELECT * { SERVICE <http://source/data> { ?s <a:p> ?o } GRAPH ?g { ?s <a:p> ?o } }", "name the graph"),
        ("SELECT * FROM <a:g> { ?s <a:p> ?o }", "FROM is not supported"),
        ("ASK { ?s <a:p> ?o }", "not a SELECT"),
        ("SELECT * {", "not valid SPARQL"),
    ],
)
def test_queries_that_cannot_be_followed_are_refused_in_words(query: str, said: str) -> None:
    *_, source = world()

    def explain() -> object:
        asked = source(query)
        return asked.queries(asked.parts())

    with pytest.raises((ConfigError, InputError), match=said):
        explain()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1000 2000 <a:s> <a:p> 1 .", "<since ms>, a tab"),
        ("2000\t1000\t<a:s> <a:p> <a:o> .", "begins at 2000"),
        ("1000\t2000\tnonsense", "line 1"),
    ],
)
def test_elements_that_are_none_are_errors_with_their_line(line: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "elements"
    file.write_text(line)
    with pytest.raises(InputError, match=said):
        read_elements_file(file)


def test_pages_of_changing_data_say_when_they_expire() -> None:
    time, held, _, pool, _ = world()
    answer = pool.server.answer("GET", f"/data?predicate={T}delay", {"host": "e"})
    ends = min(one.until for one in held if one.since <= time.ms < one.until)
    assert answer.headers["Cache-Control"] == f"public, max-age={(ends - time.ms) // 1000}"
    assert "86400" in pool.server.answer("GET", f"/data?predicate={T}headSign", {"host": "e"}).headers["Cache-Control"]


@pytest.mark.parametrize("style", STYLES, ids=lambda style: f"{style.speaking}-{style.timing}")
def test_how_times_are_said_is_found_by_asking(style: AnnotationStyle) -> None:
    _, held, static, pool, source = world(style, number=5, found=True)
    asked = source(QUERY)
    parts = asked.parts()
    moment = asked.evaluate(parts)
    assert parts.styles == (style,)
    assert rows_of(moment) == true_at(held, static, moment.at)
    assert len(pool.targets) <= 24


def test_a_source_that_says_times_in_two_ways_must_be_told_which() -> None:
    *_, pool, source = world(found=True)
    flat = AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.FLAT)
    quads = flat.quads(
        TimedTriple(Triple(NamedNode(f"{T}1"), NamedNode(f"{T}late"), Literal(1)), START, START + 1_000),
        "urn:other",
        str,
    )
    assert isinstance(pool.server, FragmentServer)
    assert isinstance(pool.server.data, AnnotatedData)
    pool.server.data._store.extend(quads)
    with pytest.raises(ConfigError, match="--speaking graph --timing expiration and --speaking singleton"):
        source(QUERY).parts()


def test_times_that_are_said_only_later_are_found_later() -> None:
    _, held = trains(2, 10_000, START + 100_000, START + 30_000)
    time, _, static, _, source = world(elements=held, number=2, found=True)
    following, seen = FollowedQuery(source(QUERY)), []
    for delivered in following.run(time.sleep):
        seen.append(len(delivered.rows))
        assert rows_of(delivered.moment) == true_at(held, static, delivered.moment.at)
        if seen[-1] or following.evaluations > 30:
            break
    assert seen[-1] == 2


@pytest.mark.parametrize(
    "style", [AnnotationStyle(), AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.FLAT)], ids=str
)
def test_a_history_is_not_read_where_what_holds_now_can_be_asked_for(style: AnnotationStyle) -> None:
    time, held, static, pool, source = world(style, number=20, until=900_000, history=True)
    following, sent = FollowedQuery(source(QUERY)), []
    for delivered in following.run(time.sleep):
        assert rows_of(delivered.moment) == true_at(held, static, delivered.moment.at)
        sent.append(delivered.moment.requests)
        if following.evaluations == 30:
            break
    assert max(sent[-5:]) == max(sent[1:6]), "thirty changes later an evaluation takes what it took at first"
    assert all("instant=now" in target for target in pool.targets if "delay" in target)


def test_no_evaluation_spends_more_than_its_budget_and_what_is_late_comes_later() -> None:
    time, held, static, pool, source = world(number=5)
    following, asked = FollowedQuery(source(QUERY, ledger=Ledger(BudgetRule.of(3, bank=6)))), []
    said: list[str] = []
    following.report = said.append
    for delivered in following.run(time.sleep):
        assert rows_of(delivered.moment) == true_at(held, static, delivered.moment.at)
        assert following.query.ledger is not None
        asked.append((following.query.ledger.evaluations, len(pool.targets)))
        if following.evaluations == 8:
            break
    assert following.query.ledger is not None
    following.query.ledger.check()
    assert all(sent <= 3 * evaluations for evaluations, sent in asked)
    assert following.failed >= 1
    assert "the budget of this evaluation is spent" in said[0]
    assert following.query.ledger.spent == len(pool.targets)


def test_requests_wait_for_the_rate_limit_and_a_source_that_is_down_is_left_alone() -> None:
    time, *_, pool, source = world(number=5)
    query = source(QUERY)
    requests = query.sources[0].requests
    requests.limiter.limits = [Limit(Rate.of("2/s"))]
    began = time.ms
    query.evaluate(query.parts())
    assert time.ms - began >= (len(pool.targets) - 2) * 500
    requests.limiter.breaker = Breaker(failures=1, cool_down=60)
    requests.limiter.failed()
    time.ms += 10_000
    with pytest.raises(NotSentError, match="failed 1 times in a row"):
        query.evaluate(query.parts())


def test_several_sources_are_asked_as_one_and_by_the_clock_of_the_first() -> None:
    time, held, static, *_ = world(number=5)
    first = [one for one in held if one.triple.predicate.value == f"{T}delay"]
    other = [one for one in held if one.triple.predicate.value == f"{T}platform"]
    flat = AnnotationStyle(AnnotationEncoding.SINGLETON, TimeEncoding.FLAT)

    def served(elements: list[TimedTriple], quads: list[Quad], style: AnnotationStyle, ahead: int) -> AnnotatedSource:
        moved = [TimedTriple(one.triple, one.since + ahead, one.until + ahead) for one in elements]
        server = FragmentServer(AnnotatedData(quads, moved, style), lambda: time.ms + ahead, "/data")
        pool = InProcessPool(server, time, ahead)
        client = FragmentsOverHttp("http://source/data", pool=pool, wall=lambda: time.ms / 1000)
        return AnnotatedSource(client)

    sources = [served(first, static[:9], AnnotationStyle(), 0), served(other, static[9:], flat, 60_000)]
    following = FollowedQuery(AnnotatedQuery(sources, QUERY), pauses=Pauses(skew=1_500))
    for delivered in following.run(time.sleep):
        assert delivered.moment.since <= delivered.moment.at < delivered.moment.until
        assert rows_of(delivered.moment) == true_at(held, static, delivered.moment.at)
        if following.evaluations == 6:
            break
    assert following.evaluations == 6
    assert following.parts is not None
    assert set(following.parts.styles) == {AnnotationStyle(), flat}
