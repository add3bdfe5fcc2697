"""When two SERVICE patterns are one: the same text but for the names of variables, joined by the same of them."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.service_split import Split
from freshkeeper.maintenance.query.syntax.tokens import Kind


@dataclass(frozen=True, eq=False)
class NumberedPattern:
    """A SERVICE pattern whose variables are numbered in the order in which they come."""

    pattern: ServicePattern
    split: Split

    @cached_property
    def _written(self) -> tuple[str, Mapping[str, str]]:
        source, numbers, words = self.pattern.block.source, dict[str, str](), list[str]()
        for token in self.pattern.block.group.items:
            if token.kind is Kind.VAR:
                words.append(numbers.setdefault(token.text[1:], f"?{len(numbers)}"))
            elif token.kind is Kind.BLANK:
                words.append(numbers.setdefault(token.text, f"_:{len(numbers)}"))
            else:
                iri = source.iri(token)
                words.append(token.text if iri is None else f"<{iri}>")
        return " ".join(words), numbers

    @property
    def key(self) -> Hashable:
        """Equal for patterns whose answers are the same, given the same values to join with."""
        text, numbers = self._written
        return self.pattern.endpoint, text, frozenset(numbers[name] for name in self.split.sn)

    def names_of(self, other: "NumberedPattern") -> Mapping[str, str]:
        """For each variable of another pattern with the same key, what it is called here."""
        here = {number: name for name, number in self._written[1].items()}
        return {name: here[number] for name, number in other._written[1].items()}
