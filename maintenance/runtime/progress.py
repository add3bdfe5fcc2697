"""Progress of a query, in the state: which of its evaluations were answered."""

from dataclasses import dataclass
from typing import Any

from freshkeeper.maintenance.base.term_text import decode, encode
from freshkeeper.maintenance.engine.r2s import AnswerBag, Freshness
from freshkeeper.maintenance.state.database import Database


@dataclass(eq=False)
class Progress:
    """The progress of one query."""

    base: Database
    query: str = ""
    """its name; empty for the only query of a run"""

    @property
    def answered(self) -> int | None:
        """The last evaluation whose answers are out for sure."""
        found: int | None = self.base.facts.get(self._key("answered"))
        return found

    @property
    def answering(self) -> int | None:
        """The evaluation that was being answered when the process before ended; its answers may be partial."""
        found: int | None = self.base.facts.get(self._key("answering"))
        return found

    @property
    def streamed(self) -> AnswerBag | None:
        """The answers with which R2S compares the next ones."""
        written = self.base.facts.get(self._key("streamed"))
        if written is not None:
            return _decode(written)
        return None

    def begin(self, t: int) -> None:
        """Note that the answers of an evaluation are about to go out."""
        with self.base.transaction():
            self.base.note({self._key("answering"): t})

    def answer(self, t: int, streamed: AnswerBag | None) -> None:
        """Note that the answers of an evaluation are out; R2S compares the next ones with `streamed`."""
        facts: dict[str, Any] = {"answering": None, "answered": t, "streamed": None}
        if streamed is not None:
            facts["streamed"] = _encode(streamed)
        with self.base.transaction():
            self.base.note({self._key(name): value for name, value in facts.items()})

    def _key(self, fact: str) -> str:
        return f"{fact} {self.query}".rstrip()


def _encode(answers: AnswerBag) -> list[Any]:
    freshness = None
    if answers.freshness is not None:
        freshness = [[one.probability, one.age] for one in answers.freshness]
    return [encode(tuple(answers.items)), freshness]


def _decode(written: list[Any]) -> AnswerBag:
    (items,) = decode([written[0]])
    sure = None if written[1] is None else [Freshness(probability, age) for probability, age in written[1]]
    return AnswerBag(items, sure)
