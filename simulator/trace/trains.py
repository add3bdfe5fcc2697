"""The trains of paper 004: three static triples of each, a delay and a platform that change; and its query."""

from datetime import datetime

from pyoxigraph import Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.sources.fragments.annotation_style import TimedTriple, date_literal
from freshkeeper.maintenance.sources.fragments.vocabulary import XSD

BASE = "http://example.org/train/"
FIRST = round(datetime.fromisoformat("2015-12-08T10:20:18+00:00").timestamp() * 1000)
DEPARTURE_INTERVAL_MS = 36_000
"""Milliseconds between two departures: a hundred of them are within the hour that the query asks for."""
DEPARTURES = f"""PREFIX t: <{BASE}> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
SELECT ?delay ?platform ?headSign ?routeLabel ?departureTime
WHERE {{
  _:id t:delay ?delay .
  _:id t:platform ?platform .
  _:id t:departureTime ?departureTime .
  _:id t:headSign ?headSign .
  _:id t:routeLabel ?routeLabel .
  FILTER (?departureTime > "2015-12-08T10:20:00"^^xsd:dateTime) .
  FILTER (?departureTime < "2015-12-08T11:20:00"^^xsd:dateTime) .
}}
"""
"""004's Listing 1.1: all departures of an hour; the first two patterns change."""


def trains(number: int, lasts: int, until: int, start: int = 0) -> tuple[list[Quad], list[TimedTriple]]:
    """004's trains: three static triples of each, and its delay and platform anew every `lasts` milliseconds."""
    static, held = list[Quad](), list[TimedTriple]()
    for n in range(number):
        train = NamedNode(f"{BASE}{n}")
        names = {"headSign": Literal(f"Town {n % 9}"), "routeLabel": Literal(f"Route {n % 4}")}
        departure = date_literal(FIRST + n * DEPARTURE_INTERVAL_MS).value.removesuffix(".000Z")
        departs = Literal(departure, datatype=NamedNode(f"{XSD}dateTime"))
        for name, value in (names | {"departureTime": departs}).items():
            static.append(Quad(train, NamedNode(BASE + name), value))
        for at in range(start, until, lasts):
            step = at // lasts
            for name, amount in (("delay", (n + step) % 7), ("platform", (n * 3 + step) % 5)):
                held.append(TimedTriple(Triple(train, NamedNode(BASE + name), Literal(amount)), at, at + lasts))
    return static, held
