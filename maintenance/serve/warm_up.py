"""Warm-up of a service: compile, or load from the disk, what queries call first.

A kernel takes a second to compile once per installation, and some hundredths of a second to load in every process. To
answer its first elements in time, a service first runs a small one in a temporary directory: elements, windows,
joins, views, answers, freed ids.
"""

import gc
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.engine.columns.dictionary import SWEEP_FROM_SPELLINGS
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.serve.look_up import LookUps
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service import QueryService
from freshkeeper.maintenance.serve.service_status import Status
from freshkeeper.maintenance.serve.starting import start

STREAM, IDLE_STREAM, SOURCE = "urn:warm:posts", "urn:warm:places", "urn:warm:users"
BEGIN, STEP, STEPS, TOPICS, USERS = 1_000_000_000_000, 1_000, 6, 3, 7
ENOUGH_TERMS = SWEEP_FROM_SPELLINGS + 1
"""So many new terms make the dictionary free ids."""
POST = "?post <urn:warm:topic> ?topic ; <urn:warm:by> ?user"
PATTERN_OF_SOURCE = f"SERVICE <{SOURCE}> {{ ?user <urn:warm:followers> ?n }}"
TIME, COUNT, NOW = "RANGE PT2S STEP PT1S", "ELEMENTS 4 STEP 2", "NOW"
PATTERNS = {
    "single": ("?post", TIME, "?post <urn:warm:topic> <urn:warm:t0>", ""),
    "joined": ("?post ?user", TIME, POST, ""),
    "filtered": ("DISTINCT ?user", TIME, f"{POST} FILTER(?user != <urn:warm:u1>)", ""),
    "counted": ("?topic (COUNT(?post) AS ?posts)", TIME, POST, "GROUP BY ?topic"),
    "fresh": ("?post ?n", TIME, POST, ""),
    "summed": ("?topic (SUM(?n) AS ?sum)", TIME, POST, "GROUP BY ?topic"),
    "elements": ("?post ?user", COUNT, POST, ""),
    "moving": ("?topic (COUNT(?post) AS ?posts)", COUNT, POST, "GROUP BY ?topic"),
    "instants": ("?post ?topic", NOW, POST, ""),
}
"""Of each query the projection, the window, the pattern and the grouping."""
FROM_VIEW = ("fresh", "summed")


@cache
def warm_up() -> None:
    """Run the small service, once in a process, and exempt what is there then from garbage collections."""
    with TemporaryDirectory(prefix="freshkeeper-") as place, closing(_small_service(Path(place))) as service:
        number = 0
        for step in range(STEPS):
            for stream, many in ((STREAM, 50), (IDLE_STREAM, ENOUGH_TERMS if step == STEPS // 2 else 1)):
                service.push(stream, b"".join(_posts(number, many, BEGIN + step * STEP)))
                number += many
            service.settled()
    gc.collect()
    gc.freeze()


def warm_up_if_possible(tell: Callable[[str], None]) -> None:
    """Warm up; report if it fails, as on a full disk: the service works without."""
    try:
        warm_up()
    except (OSError, FreshkeeperError) as error:
        tell(f"nothing is loaded ahead, so the first elements may take seconds: {error_text(error)}")


def _small_service(place: Path) -> QueryService:
    (place / "users.ttl").write_text("".join(f"<urn:warm:u{n}> <urn:warm:followers> {n} . " for n in range(USERS)))
    source = {"data": str(place / "users.ttl"), "volatile": "urn:warm:followers"}
    queries = {f"{name}-{operator}": _query(name, operator) for name in PATTERNS for operator in ("RSTREAM", "ISTREAM")}
    given = {"streams": [STREAM, IDLE_STREAM], "sources": {SOURCE: source}, "queries": queries, "budget": 3}
    config = validated(ServeConfig, {**given, "state": str(place / "state"), "audit": 0.1})
    status, look_ups = Status(), LookUps()
    service = start(config, [status.observe, look_ups.observe])
    service.answered = status.answered
    return service


def _query(name: str, operator: str) -> str:
    shown, window, pattern, groups = PATTERNS[name]
    asked = PATTERN_OF_SOURCE if name in FROM_VIEW else ""
    return (
        f"REGISTER {operator} <urn:warm:out> AS SELECT {shown} FROM NAMED WINDOW <urn:warm:w> ON <{STREAM}> [{window}] "
        f"{{ WINDOW <urn:warm:w> {{ {pattern} }} {asked} }} {groups}"
    )


def _posts(first: int, many: int, begin: int) -> Iterable[bytes]:
    for n in range(many):
        at, post = begin + n * STEP // many, f"<urn:warm:p{first + n}>"
        yield f"{at}\t{post} <urn:warm:topic> <urn:warm:t{n % TOPICS}> .\n".encode()
        yield f"{at}\t{post} <urn:warm:by> <urn:warm:u{n % USERS}> .\n".encode()
