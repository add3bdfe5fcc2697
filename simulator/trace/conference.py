"""A conference: a floor plan, authors with their papers, and sightings of participants; the queries of seeds/000.

The paper took sightings of the Open Beacon community, DBLP-like data and a floor plan of 172 triples. This
is one of our own: a floor plan of as many triples, authors whose careers end, so that nobody's papers grow with the
size of the data, and people who walk from room to connected room.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.files import atomic_directory
from freshkeeper.simulator.trace.conference_queries import FLOOR_PLAN, LV, NAME, QUERIES

ROOMS, CORRIDORS = 26, 60
"""A name and a description for each room, and corridors in both directions: 172 triples."""
PERSON = "http://example.org/person/"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
DC, TERMS = "http://purl.org/dc/elements/1.1/", "http://purl.org/dc/terms/"
FOAF, SWRC = "http://xmlns.com/foaf/0.1/", "http://swrc.ontoware.org/ontology#"
FIRST_NAMES = (
    "Ada", "Bea", "Cem", "Dana", "Eli", "Fay", "Gus", "Hal", "Ida", "Jun", "Kai", "Lea", "Max", "Nia", "Oto", "Pia",
)  # fmt: skip
CAREER = 400
"""The authors of a paper are drawn from this number of latest authors."""
PAPERS, EDITORS = 40, 3
"""of one volume of proceedings"""


class Conference(BaseModel):
    """Settings of the conference and of the data about its authors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    triples: int = Field(default=100_000, ge=1_000, description="triples about authors and papers")
    people: int = Field(default=300, ge=2, description="authors who came, of one community")
    interval_ms: int = Field(default=10, ge=1, description="mean time between sightings")
    moving: float = Field(default=0.2, ge=0, le=1, description="share of sightings in another room than before")


@dataclass(frozen=True)
class FloorPlan:
    """Rooms by number, and the rooms that each is connected to."""

    doors: tuple[tuple[int, ...], ...]

    def lines(self) -> Iterator[str]:
        """Name, description and connections of every room, as N-Triples."""
        for room, doors in enumerate(self.doors):
            yield f'{_room(room)} <{LV}name> "Room {room}" .\n'
            yield f'{_room(room)} <{LV}desc> "{len(doors)} doors on floor {room // 9}" .\n'
            for other in doors:
                yield f"{_room(room)} <{LV}connected> {_room(other)} .\n"


def floor_plan(seed: int) -> FloorPlan:
    """Draw a ring of rooms with corridors across."""
    rng = np.random.default_rng([seed, 0])
    pairs = {(room, (room + 1) % ROOMS) for room in range(ROOMS)}
    while len(pairs) < CORRIDORS:
        first, second = sorted(rng.choice(ROOMS, 2, replace=False).tolist())
        if not {(first, second), (second, first)} & pairs:
            pairs.add((first, second))
    doors: list[set[int]] = [set() for _ in range(ROOMS)]
    for first, second in pairs:
        doors[first].add(second)
        doors[second].add(first)
    return FloorPlan(tuple(tuple(sorted(each)) for each in doors))


def author_name(number: int) -> str:
    """Return the unique name of an author."""
    return f"{FIRST_NAMES[number % len(FIRST_NAMES)]} Author{number}"


def papers(seed: int) -> Iterator[str]:
    """Yield N-Triples about authors and papers endlessly, volume by volume."""
    rng, authors, volume = np.random.default_rng([seed, 1]), 0, 0
    while True:
        for _ in range(EDITORS if authors else CAREER // 4):
            yield from _author(authors)
            authors += 1
        editors = sorted(set(_career(rng.random(EDITORS), authors)))
        yield from _proceedings(volume, editors)
        for paper in range(volume * PAPERS, (volume + 1) * PAPERS):
            if rng.random() < 0.5:
                yield from _author(authors)
                authors += 1
            creators = sorted(set(_career(rng.random(1 + int(rng.poisson(1.5))), authors)))
            yield from _paper(paper, volume, creators, int(rng.integers(1, 500)))
        volume += 1


def sightings(conference: Conference, seed: int) -> Iterator[str]:
    """Yield detections of people in rooms as timestamped N-Triples, endlessly."""
    plan, rng = floor_plan(seed), np.random.default_rng([seed, 2])
    rooms, time = rng.integers(0, ROOMS, conference.people).tolist(), 0
    while True:
        who, doors = rng.integers(0, conference.people, 1_000).tolist(), rng.random(1_000).tolist()
        gaps, moving = rng.exponential(conference.interval_ms, 1_000).tolist(), rng.random(1_000) < conference.moving
        for person, door, gap, moves in zip(who, doors, gaps, moving.tolist(), strict=True):
            time += round(gap)
            if moves:
                near = plan.doors[rooms[person]]
                rooms[person] = near[int(door * len(near))]
            yield f"{time}\t{_person(person)} <{LV}detectedAt> {_room(rooms[person])} .\n"


def query_texts(name: str) -> dict[str, str]:
    """Return the queries of the paper about an author."""
    return {number: text.replace(NAME, name) for number, text in QUERIES.items()}


def write_conference(conference: Conference, seed: int, count: int, out: Path, overwrite: bool = False) -> None:
    """Write floorplan.nt, dblp.nt, rfid.nq and q1.cqels to q5.cqels; overwrite nothing but a conference."""
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        if not (out / "rfid.nq").exists():
            raise InputError(f"{out} is there already and is no conference: name another directory")
        if not overwrite:
            raise InputError(f"{out / 'rfid.nq'} is there already; name an empty directory, or --overwrite it")
    with atomic_directory(out) as place:
        _write(place / "floorplan.nt", floor_plan(seed).lines())
        _write(place / "dblp.nt", islice(papers(seed), conference.triples))
        _write(place / "rfid.nq", islice(sightings(conference, seed), count))
        for number, text in query_texts(author_name(1)).items():
            (place / f"{number}.cqels").write_text(text, encoding="utf-8")


def _write(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)


def _career(draws: np.typing.NDArray[np.float64], authors: int) -> list[int]:
    """Return the numbers of recent authors; the productive ones are drawn more often."""
    found: list[int] = (authors - 1 - (draws**2 * min(CAREER, authors)).astype(int)).tolist()
    return found


def _author(number: int) -> Iterator[str]:
    yield f"{_person(number)} {TYPE} <{FOAF}Person> .\n"
    yield f'{_person(number)} <{FOAF}name> "{author_name(number)}" .\n'


def _proceedings(volume: int, editors: list[int]) -> Iterator[str]:
    name = f"<http://example.org/proceedings/{volume}>"
    yield f"{name} {TYPE} <{SWRC}Proceedings> .\n"
    yield f'{name} <{DC}title> "Proceedings {volume}" .\n'
    for editor in editors:
        yield f"{name} <{SWRC}editor> {_person(editor)} .\n"


def _paper(number: int, volume: int, creators: list[int], page: int) -> Iterator[str]:
    name = f"<http://example.org/paper/{number}>"
    yield f"{name} {TYPE} <{SWRC}InProceedings> .\n"
    yield f'{name} <{DC}title> "On matter {number}" .\n'
    for creator in creators:
        yield f"{name} <{DC}creator> {_person(creator)} .\n"
    yield f"{name} <{TERMS}partOf> <http://example.org/proceedings/{volume}> .\n"
    yield f'{name} <{TERMS}issued> "{1990 + volume % 30}"^^<http://www.w3.org/2001/XMLSchema#gYear> .\n'
    yield f'{name} <{SWRC}pages> "{page}-{page + 15}" .\n'


def _person(number: int) -> str:
    return f"<{PERSON}{number}>"


def _room(number: int) -> str:
    return f"<{FLOOR_PLAN}room{number}>"
