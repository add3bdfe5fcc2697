"""What queries call for the first time is compiled, or read from the disk, before anybody waits for it.

A kernel takes a second to compile once for an installation, and some hundredths of one to load in every process. A
service that found that out at its first elements would answer them seconds late. So a small one runs first, in a
directory that goes: elements, windows, joins, views, answers, ids that are freed.
"""

import gc
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.engine.native.dictionary import SWEEP_FROM_SPELLINGS
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.serve.look_up import LookUps
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service import QueryService
from freshkeeper.maintenance.serve.service_status import Status
from freshkeeper.maintenance.serve.starting import start

STREAM, OTHER, SOURCE = "urn:warm:posts", "urn:warm:places", "urn:warm:users"
BEGIN, STEP, STEPS, TOPICS, USERS = 1_000_000_000_000, 1_000, 6, 3, 7
MANY = SWEEP_FROM_SPELLINGS + 1
"""New terms that make ids be freed."""
POST = "?post <urn:warm:topic> ?topic ; <urn:warm:by> ?user"
ASKED = f"SERVICE <{SOURCE}> {{ ?user <urn:warm:followers> ?n }}"
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
"""What is shown, of which window, of which pattern, in which groups."""
FROM_VIEW = ("fresh", "summed")


@cache
def warm_up() -> None:
    """Once in a process; what is there then is not looked at again by every collection of garbage."""
    with TemporaryDirectory(prefix="freshkeeper-") as place, closing(_small_service(Path(place))) as service:
        number = 0
        for step in range(STEPS):
            for stream, many in ((STREAM, 50), (OTHER, MANY if step == STEPS // 2 else 1)):
                service.push(stream, b"".join(_posts(number, many, BEGIN + step * STEP)))
                number += many
            service.settled()
    gc.collect()
    gc.freeze()


def warm_up_if_possible(tell: Callable[[str], None]) -> None:
    """A service serves also where there is no room for another one; then that is said."""
    try:
        warm_up()
    except (OSError, FreshkeeperError) as error:
        tell(f"nothing is loaded ahead, so the first elements may take seconds: {error_text(error)}")


def _small_service(place: Path) -> QueryService:
    (place / "users.ttl").write_text("".join(f"<urn:warm:u{n}> <urn:warm:followers> {n} . " for n in range(USERS)))
    source = {"data": str(place / "users.ttl"), "volatile": "urn:warm:followers"}
    queries = {f"{name}-{operator}": _query(name, operator) for name in PATTERNS for operator in ("RSTREAM", "ISTREAM")}
    given = {"streams": [STREAM, OTHER], "sources": {SOURCE: source}, "queries": queries, "budget": 3}
    config = validated(ServeConfig, {**given, "state": str(place / "state"), "audit": 0.1})
    status, look_ups = Status(), LookUps()
    service = start(config, [status.observe, look_ups.observe])
    service.answered = status.answered
    return service


def _query(name: str, operator: str) -> str:
    shown, window, pattern, groups = PATTERNS[name]
    asked = ASKED if name in FROM_VIEW else ""
    return (
        f"REGISTER {operator} <urn:warm:out> AS SELECT {shown} FROM NAMED WINDOW <urn:warm:w> ON <{STREAM}> [{window}] "
        f"{{ WINDOW <urn:warm:w> {{ {pattern} }} {asked} }} {groups}"
    )


def _posts(first: int, many: int, begin: int) -> Iterable[bytes]:
    for n in range(many):
        at, post = begin + n * STEP // many, f"<urn:warm:p{first + n}>"
        yield f"{at}\t{post} <urn:warm:topic> <urn:warm:t{n % TOPICS}> .\n".encode()
        yield f"{at}\t{post} <urn:warm:by> <urn:warm:u{n % USERS}> .\n".encode()
