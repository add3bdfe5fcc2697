"""How far the answers of a query have been delivered, kept in the state database."""

from dataclasses import dataclass
from typing import Any

from freshkeeper.maintenance.engine.r2s import Answers, Freshness
from freshkeeper.maintenance.state.database import Database
from freshkeeper.maintenance.state.term_text import decode, encode


@dataclass(eq=False)
class Progress:
    """How far the answers of one query are out."""

    base: Database
    query: str = ""
    """its name, where there are several"""

    @property
    def answered(self) -> int | None:
        """The last evaluation whose answers are known to be out."""
        found: int | None = self.base.facts.get(self._named("answered"))
        return found

    @property
    def answering(self) -> int | None:
        """The evaluation within whose answers the output of the run before may end."""
        found: int | None = self.base.facts.get(self._named("answering"))
        return found

    @property
    def torn(self) -> bool:
        """Whether there is such an evaluation."""
        return self.answering is not None

    @property
    def streamed(self) -> Answers | None:
        """What R2S compares the next answers with."""
        written = self.base.facts.get(self._named("streamed"))
        return None if written is None else _read(written)

    def begin(self, t: int) -> None:
        """The answers of an evaluation are about to go out."""
        with self.base.transaction():
            self.base.note({self._named("answering"): t})

    def answer(self, t: int, streamed: Answers | None) -> None:
        """The answers of an evaluation are out; `streamed` is what R2S compares the next ones with."""
        written = None if streamed is None else _written(streamed)
        facts = {"answering": None, "answered": t, "streamed": written}
        with self.base.transaction():
            self.base.note({self._named(name): value for name, value in facts.items()})

    def _named(self, fact: str) -> str:
        return f"{fact} {self.query}".rstrip()


def _written(answers: Answers) -> list[Any]:
    fresh = answers.freshness
    sure = None if fresh is None else [[one.probability, one.age] for one in fresh]
    return [encode(tuple(answers.items)), sure]


def _read(written: list[Any]) -> Answers:
    (items,) = decode([written[0]])
    sure = None if written[1] is None else [Freshness(probability, age) for probability, age in written[1]]
    return Answers(items, sure)
