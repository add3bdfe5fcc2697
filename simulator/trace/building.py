"""A smart building: readings of typed sensors over a graph of devices, and queries by random walks over them.

Seeds/003 measured on readings of a building of its authors' and on random walks over their graph; that data is private,
so this is one of our own, and what it costs to match depends on how much matches: say so beside every rate.

A reading is a few triples at one instant: its kind, device, value and unit; now and then its device says again what it
is, where, and on which floor. A query is a walk over the triples of one window: from triple to triple that share a
reading, a device, a room or a floor. What they share, and every reading, is a variable then; any other end of the walk
stays the constant it is, as often as the settings say.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import BaseModel, ConfigDict, Field

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import atomic_directory

BASE = "http://example.org/building/"
STREAM = f"{BASE}readings"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
KINDS = {"Meter": "W", "Lamp": "W", "Heater": "W", "Thermometer": "°C", "Hygrometer": "%", "Counter": "1"}
"""Kinds of devices, and their units."""
READING = f"<{BASE}reading/"
THINGS = tuple(f"<{BASE}{kind}/" for kind in ("reading", "device", "room", "floor"))
"""Nodes that a walk passes; kinds, units and values are ends."""
STRIDE = 10
"""Triples between the windows of two queries."""


class Building(BaseModel):
    """Settings of the building and of the queries."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    devices: int = Field(default=200, ge=1, description="devices, of six kinds")
    rooms: int = Field(default=40, ge=1, description="rooms in which they stand")
    floors: int = Field(default=5, ge=1, description="floors on which rooms are")
    interval_ms: int = Field(default=20, ge=1, description="mean time between readings")
    announced: float = Field(default=0.3, ge=0, le=1, description="share of readings whose device says where it is")
    patterns: int = Field(default=3, ge=1, le=16, description="triple patterns in a query at most")
    window: int = Field(default=100, ge=1, description="triples in a query's window")
    constants: float = Field(default=0.8, ge=0, le=1, description="share of a walk's ends that stay constants")
    predicates: float = Field(default=0.95, ge=0, le=1, description="share of predicates that stay constants")


class BuildingTriple(NamedTuple):
    """A triple of the stream, its terms as N-Triples writes them."""

    time: int
    subject: str
    predicate: str
    object: str

    @property
    def line(self) -> str:
        """Return the triple as a line of a stream's file."""
        return f"{self.time}\t{self.subject} {self.predicate} {self.object} .\n"


def building_iri(name: str) -> str:
    """Return an IRI of the building."""
    return f"<{BASE}{name}>"


@dataclass(frozen=True)
class Device:
    """A device: its kind, and where it stands."""

    name: str
    kind: str
    room: str
    floor: str

    def reading(self, number: int, value: int) -> Iterator[tuple[str, str, str]]:
        """Yield the triples of one reading."""
        reading = building_iri(f"reading/{number}")
        yield reading, TYPE, building_iri(f"{self.kind}Reading")
        yield reading, building_iri("device"), self.name
        yield reading, building_iri("value"), f'"{value}"^^{INTEGER}'
        yield reading, building_iri("unit"), f'"{KINDS[self.kind]}"'

    def announcement(self) -> Iterator[tuple[str, str, str]]:
        """Yield the triples that say what the device is, and where it stands."""
        yield self.name, TYPE, building_iri(self.kind)
        yield self.name, building_iri("in"), self.room
        yield self.room, building_iri("on"), self.floor


def devices(building: Building, seed: int) -> list[Device]:
    """Draw the devices."""
    rng = np.random.default_rng([seed, 0])
    kinds = rng.integers(0, len(KINDS), building.devices)
    rooms = rng.integers(0, building.rooms, building.devices)
    return [
        Device(
            building_iri(f"device/{n}"),
            [*KINDS][kind],
            building_iri(f"room/{room}"),
            building_iri(f"floor/{room % building.floors}"),
        )
        for n, (kind, room) in enumerate(zip(kinds.tolist(), rooms.tolist(), strict=True))
    ]


def readings(building: Building, seed: int) -> Iterator[BuildingTriple]:
    """Yield the triples of the stream, endlessly."""
    known, rng = devices(building, seed), np.random.default_rng([seed, 1])
    time = number = 0
    while True:
        which, values = rng.integers(0, len(known), 1_000), rng.integers(0, 100, 1_000)
        gaps, announced = rng.exponential(building.interval_ms, 1_000), rng.random(1_000) < building.announced
        drawn = zip(which.tolist(), values.tolist(), gaps.tolist(), announced.tolist(), strict=True)
        for device, value, gap, says in drawn:
            time += 1 + int(gap)
            for triple in known[device].reading(number, value):
                yield BuildingTriple(time, *triple)
            for triple in known[device].announcement() if says else ():
                yield BuildingTriple(time, *triple)
            number += 1


def queries(building: Building, seed: int, count: int) -> Iterator[str]:
    """Yield `count` queries: each is a walk over a window, some readings after the previous one."""
    rng, stream = np.random.default_rng([seed, 2]), readings(building, seed)
    held = deque((each[1:] for each in islice(stream, building.window)), building.window)
    for number in range(count):
        held.extend(each[1:] for each in islice(stream, STRIDE))
        triples = walk(list(dict.fromkeys(held)), int(rng.integers(1, building.patterns + 1)), rng)
        yield query_text(building, number, generalised(triples, building, rng))


def walk(held: list[tuple[str, str, str]], length: int, rng: Generator) -> list[tuple[str, str, str]]:
    """Return a walk from triple to triple, each of which shares a thing with an earlier one."""
    taken = [held[int(rng.integers(len(held)))]]
    while len(taken) < length:
        seen = {node for s, _, o in taken for node in (s, o) if node.startswith(THINGS)}
        near = [triple for triple in held if (triple[0] in seen or triple[2] in seen) and triple not in taken]
        if not near:
            break
        taken.append(near[int(rng.integers(len(near)))])
    return taken


def generalised(triples: list[tuple[str, str, str]], building: Building, rng: Generator) -> list[str]:
    """Return the walk with variables for shared things, for readings, and for some of the rest."""
    times = Counter(node for s, _, o in triples for node in (s, o))
    variables: dict[str, str] = {}
    for node, count in times.items():
        if count > 1 or node.startswith(READING) or rng.random() >= building.constants:
            variables[node] = f"?v{len(variables)}"
    opened = rng.random(len(triples)) >= building.predicates
    return [
        f"{variables.get(s, s)} {f'?p{n}' if free else p} {variables.get(o, o)} ."
        for n, ((s, p, o), free) in enumerate(zip(triples, opened.tolist(), strict=True))
    ]


def query_text(building: Building, number: int, patterns: list[str]) -> str:
    """Return the query as RSP-QL."""
    return (
        f"PREFIX : <{BASE}>\nREGISTER ISTREAM :answers{number} AS\n"
        f"SELECT * FROM NAMED WINDOW :w ON :readings [ELEMENTS {building.window}]\n"
        f"WHERE {{ WINDOW :w {{ {' '.join(patterns)} }} }}\n"
    )


def write_building(building: Building, seed: int, triples: int, count: int, out: Path, overwrite: bool = False) -> None:
    """Write the stream as readings.nq and each query as a file; overwrite nothing but a building."""
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        if not (out / "readings.nq").exists():
            raise InputError(f"{out} is there already and is no building: name another directory")
        if not overwrite:
            raise InputError(f"{out / 'readings.nq'} is there already; name an empty directory, or --overwrite it")
    width = len(str(max(0, count - 1)))
    with atomic_directory(out) as place:
        with (place / "readings.nq").open("w", encoding="utf-8") as file:
            file.writelines(each.line for each in islice(readings(building, seed), triples))
        (place / "queries").mkdir()
        for number, text in enumerate(queries(building, seed, count)):
            (place / "queries" / f"q{number:0{width}}.rspql").write_text(text, encoding="utf-8")
