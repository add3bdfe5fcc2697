"""The truth, where it is known: when the SRs of a scripted source changed, as the journal's table of changes.

Only a source inside this process is known at every instant. An SR changes when what a refresh of it would bring
changes; a statement that says again what held already changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.evaluation import Answers
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.fetching.endpoint import Key, Order
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.maintenance.sources.pattern_source import PatternFetcher, PatternSource, pattern_fetcher
from freshkeeper.maintenance.sources.sources import EmbeddedSource
from freshkeeper.maintenance.sources.transport import InProcess, Transport

Change: TypeAlias = tuple[Key, int]


@dataclass(eq=False)
class Truth:
    """The cached entries of a view and when they changed; empty if that cannot be known."""

    fetcher: PatternFetcher | None = None
    keys: dict[Key, None] = field(default_factory=dict)
    until: int = 0

    @classmethod
    def of(cls, manager: Manager) -> "Truth":
        """Return the truth about a view; changing edges are not part of it, as the table has no place for them."""
        fetcher = manager.endpoint
        if not isinstance(fetcher, KeyFetcher) or not isinstance(fetcher.source, PatternSource):
            return cls()
        if _scripted(fetcher) is None:
            return cls()
        slots = zip(manager.view.srs.keys, manager.view.kinds.tolist(), strict=True)
        return cls(fetcher, dict.fromkeys(key for key, kind in slots if key is not None and kind == Kind.COPY))

    @property
    def is_known(self) -> bool:
        """Tells if the source is known at every instant."""
        return self.fetcher is not None

    def see(self, now: int, answers: Answers) -> None:
        """Take note of the cached entries that the answers of an evaluation are made of."""
        self.until = now
        if self.fetcher is not None:
            self.keys.update(dict.fromkeys(answers.entries))

    def changes(self) -> list[Change]:
        """Return all changes of these entries up to the last evaluation."""
        source = None if self.fetcher is None else _scripted(self.fetcher)
        if self.fetcher is None or source is None or not source.changes or not self.keys:
            return []
        split = self.fetcher.source.split
        anew = pattern_fetcher(split, Transport.in_process(EmbeddedSource(source.data, list(source.changes))))
        keys = list(self.keys)
        values = _values(anew, keys, source.changes[0][0] - 1)
        mentioning = _mentioning(keys)
        found = []
        for t, changes in groupby(source.changes, key=lambda change: change[0]):
            if t > self.until:
                break
            terms = [term for _, quad in changes for term in (quad.subject, quad.object)]
            touched = list(dict.fromkeys(key for term in terms for key in mentioning.get(term, ())))
            touched = touched or keys  # statements may be about terms that a key leads to
            for key, value in _values(anew, touched, t).items():
                if values[key] != value:
                    values[key] = value
                    found.append((key, t))
        return found


def _scripted(fetcher: PatternFetcher) -> EmbeddedSource | None:
    service = fetcher.source.transport.service
    ask = service.ask if isinstance(service, InProcess) else None
    if isinstance(ask, EmbeddedSource):
        return ask
    return None


def _values(fetcher: PatternFetcher, keys: list[Key], now: int) -> dict[Key, object]:
    copies = fetcher.deliver(Order(now, keys)).copies
    return {key: copy.value for key, copy in zip(keys, copies, strict=True)}


def _mentioning(keys: Iterable[Key]) -> dict[object, list[Key]]:
    """Group keys by the terms in them."""
    found: dict[object, list[Key]] = {}
    for key in keys:
        for term in key if isinstance(key, tuple) else ():
            found.setdefault(term, []).append(key)
    return found
