"""A small world in files: a stream, a blog whose values change, queries; and runs of it with a state."""

import json
import random
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from freshkeeper.maintenance.outputs.formats import NdJson
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.maintenance.state.database import Database

E = "http://example.org/"
PLAIN = f"""PREFIX : <{E}> REGISTER RSTREAM :out AS SELECT ?topic ?user ?n
FROM NAMED WINDOW :w ON :posts [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
SECONDS = 24


@dataclass
class RunFiles:
    """Where the files are."""

    place: Path
    seed: int = 7

    def __post_init__(self) -> None:
        """Write them."""
        rng = random.Random(self.seed)
        topics, users = [f"t{n}" for n in range(8)], [f"u{n}" for n in range(9)]
        times = sorted(rng.randrange(1, SECONDS * 1000) for _ in range(70))
        posts = [f"{t}\t<{E}p{n}> <{E}topic> <{E}{rng.choice(topics)}> ." for n, t in enumerate(times)]
        (self.place / "posts.nq").write_text("\n".join(posts) + "\n")
        edges = {(topic, user) for topic in topics for user in rng.sample(users, 3)}
        blog = [f"<{E}{t}> <{E}discussedBy> <{E}{u}> ." for t, u in sorted(edges)]
        blog += [f"<{E}{user}> <{E}followers> {n} ." for n, user in enumerate(users)]
        (self.place / "blog.ttl").write_text("\n".join(blog))
        when = sorted(rng.randrange(1, SECONDS * 1000) for _ in range(60))
        changes = [
            f'{t}\t<{E}{rng.choice(users)}> <{E}followers> "{100 + n}"^^<http://www.w3.org/2001/XMLSchema#integer> .'
            for n, t in enumerate(when)
        ]
        (self.place / "changes.nq").write_text("\n".join(changes) + "\n")
        ages = [f"<{E}{topic}> <{E}age> {20 + n} ." for n, topic in enumerate(topics)]
        (self.place / "log.ttl").write_text("\n".join(ages))
        (self.place / "log.yaml").write_text(f"data: log.ttl\nvolatile: {E}age\n")
        (self.place / "blog.yaml").write_text(f"data: blog.ttl\nvolatile: {E}followers\nchanges: changes.nq\n")

    def session(self, text: str = PLAIN, command: str = "", **more: object) -> Session:
        """A run, not begun."""
        given = {"streams": {f"{E}posts": str(self.place / "posts.nq")}, "budget": 3, "policy": "gain"}
        named = {name: str(self.place / f"{name}.yaml") for name in ("blog", "log") if f"SERVICE :{name}" in text}
        given["sources"] = {f"{E}{name}": file for name, file in named.items()}
        return Session(config_of({"query": text, **given, **more}), parse(text), command=command)

    def lines(self, text: str = PLAIN, stop: int | None = None, **more: Any) -> list[dict[str, Any]]:
        """What a run puts out; stopped after so many lines if asked."""
        return list(self.run(self.session(text, **more), stop))

    def run(self, session: Session, stop: int | None = None) -> Generator[dict[str, Any], None, None]:
        """The lines of a run."""
        results = session.results()
        for number, result in enumerate(results):
            yield from (json.loads(line) for line in NdJson().lines(result))
            if stop is not None and number + 1 == stop:
                results.close()
                return


@dataclass
class Image:
    """What was on disk at one moment, what had been put out, and whether something might be on its way."""

    directory: Path
    lines: int


@dataclass
class Camera:
    """Copies state and journal before, in and after transactions: what a kill at that moment would leave."""

    place: Path
    every: int = 1
    """Of so many moments it keeps one, the second; a number that shares nothing with those of an evaluation."""
    moments: int = 0
    images: list[Image] = field(default_factory=list)
    lines: int = 0
    on: bool = True

    def shoot(self) -> None:
        """One image, where it is its turn."""
        if not self.on:
            return
        self.moments += 1
        if (self.moments - 2) % self.every:
            return
        directory = self.place / f"image{len(self.images)}"
        directory.mkdir()
        for name in ("state", "journal"):
            if (self.place / name).exists():
                shutil.copytree(self.place / name, directory / name)
        self.images.append(Image(directory, self.lines))

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Shoot at every write point."""
        plain = Database.transaction

        @contextmanager
        def transaction(base: Database) -> Iterator[object]:
            self.shoot()
            with plain(base) as sql:
                yield sql
                self.shoot()
            self.shoot()

        monkeypatch.setattr(Database, "transaction", transaction)
