"""Recognises SERVICE patterns that are equal up to the names of variables, so that they can share a view."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.service_split import Split
from freshkeeper.maintenance.query.syntax.tokens import TokenKind


@dataclass(frozen=True, eq=False)
class NumberedPattern:
    """A SERVICE pattern with its variables numbered in order of appearance."""

    pattern: ServicePattern
    split: Split

    @cached_property
    def _numbered_text(self) -> tuple[str, Mapping[str, str]]:
        source, numbers, words = self.pattern.block.source, dict[str, str](), list[str]()
        for token in self.pattern.block.group.items:
            if token.kind is TokenKind.VAR:
                words.append(numbers.setdefault(token.text[1:], f"?{len(numbers)}"))
            elif token.kind is TokenKind.BLANK:
                words.append(numbers.setdefault(token.text, f"_:{len(numbers)}"))
            else:
                iri = source.iri(token)
                words.append(token.text if iri is None else f"<{iri}>")
        return " ".join(words), numbers

    @property
    def key(self) -> Hashable:
        """Equal for patterns that have the same answers, given the same values to join with."""
        text, numbers = self._numbered_text
        return self.pattern.endpoint, text, frozenset(numbers[name] for name in self.split.sn)

    def names_of(self, other: "NumberedPattern") -> Mapping[str, str]:
        """Return the name that each variable of another pattern with the same key has here."""
        here = {number: name for name, number in self._numbered_text[1].items()}
        return {name: here[number] for name, number in other._numbered_text[1].items()}
