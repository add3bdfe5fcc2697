"""Queries over async iterables: elements are pushed as they come, results are awaited."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from pyoxigraph import Quad, Triple

from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.runtime.query_runtime import QueryRuntime
from freshkeeper.maintenance.streams.batch import Batch, checked
from freshkeeper.maintenance.streams.gap_limit import LONGEST_GAP, GapLimit

Coming = AsyncIterable[tuple[int, Triple | Quad]]
Came = Batch | Exception | None
"""Elements, what broke the stream, or nothing at its end"""


async def run_async(
    query: ContinuousQuery | Sequence[ContinuousQuery],
    streams: Mapping[str, Coming],
    delay: int = 0,
    drain: bool = False,
    idle: float | None = None,
    gap: int = LONGEST_GAP,
) -> AsyncIterator[Result]:
    """One query or several over streams that come on their own; several streams meet in the order in which they arrive.

    Queries are evaluated in a thread beside the loop, which goes on while sources are asked.

    With `idle`, a stream that is silent for so many seconds holds the others back no longer. `gap` is the longest
    plausible step of a stream's time, in milliseconds: an element that is further ahead is an error.

    >>> import asyncio
    >>> from pyoxigraph import NamedNode, Triple
    >>> from freshkeeper import continuous_query, run_async
    >>> text = '''PREFIX : <urn:>
    ... SELECT ?topic FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S] { WINDOW :w { ?post :topic ?topic } }'''
    >>> async def posts():
    ...     for t in (500, 2500):
    ...         yield t, Triple(NamedNode("urn:p"), NamedNode("urn:topic"), NamedNode("urn:jazz"))
    >>> async def answered():
    ...     results = run_async(continuous_query(text), {"urn:s": posts()})
    ...     return [(result.t, len(result.answers)) async for result in results]
    >>> asyncio.run(answered())
    [(1000, 1), (2000, 1)]
    """
    runtime = QueryRuntime.of(query, drain, gap)
    for name in streams:
        runtime.listen(name, delay=delay)
    arrivals = _Arrivals(idle)
    pumps = [asyncio.create_task(_pump(name, stream, arrivals, GapLimit(gap))) for name, stream in streams.items()]
    aside = _Aside()
    try:
        for name in streams:
            arrivals.expect(name)
        while arrivals.expected:
            for name in await arrivals.wait():
                async for result in aside.of(partial(runtime.mark_idle, name)):
                    yield result
            async for result in aside.of(partial(_fed, runtime, arrivals.came)):
                yield result
        async for result in aside.of(runtime.finish):
            yield result
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await aside.close()


def _fed(runtime: QueryRuntime, came: Sequence[tuple[str, Came]]) -> Iterator[Result]:
    """What came, one after the other."""
    for name, each in came:
        if isinstance(each, Exception):
            raise each
        yield from runtime.end(name) if each is None else runtime.push(name, each)


def _read(step: Callable[[], Iterator[Result]], found: list[Result]) -> None:
    """The results with all their rows: pyoxigraph's may be read by the thread alone that has evaluated."""
    for result in step():
        len(result.answers)
        found.append(result)


@dataclass(eq=False)
class _Aside:
    """One thread for all that evaluates, so that the loop goes on while a source is asked."""

    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "queries"))

    async def of(self, step: Callable[[], Iterator[Result]]) -> AsyncIterator[Result]:
        """The results of a step; of one that fails, those before."""
        found: list[Result] = []
        failure: BaseException | None = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, _read, step, found)
        except Exception as error:
            failure = error
        for result in found:
            yield result
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """When the evaluation that is under way is finished."""
        await asyncio.get_running_loop().run_in_executor(None, self._worker.shutdown)


@dataclass(eq=False)
class _Arrivals:
    """What came, in order, and who was silent for too long."""

    patience: float | None
    expected: dict[str, float] = field(default_factory=dict)
    """open streams, and when they are silent for too long"""
    came: list[tuple[str, Came]] = field(default_factory=list)
    """what is there now"""
    queue: asyncio.Queue[tuple[str, Came]] = field(default_factory=lambda: asyncio.Queue(maxsize=1_000))

    def expect(self, name: str) -> None:
        """A stream is open, and was heard of just now."""
        self.expected[name] = asyncio.get_running_loop().time() + self.patience if self.patience else float("inf")

    async def wait(self) -> list[str]:
        """Until something came or somebody is silent for too long; `came` says what, the result is who."""
        self.came = []
        first = min(self.expected.values())
        timeout = None if first == float("inf") else max(0.0, first - asyncio.get_running_loop().time())
        try:
            self.came.append(await asyncio.wait_for(self.queue.get(), timeout))
        except TimeoutError:
            now = asyncio.get_running_loop().time()
            silent = [name for name, until in self.expected.items() if until <= now]
            self.expected |= dict.fromkeys(silent, float("inf"))
            return silent
        while not self.queue.empty():
            self.came.append(self.queue.get_nowait())
        for name, came in self.came:
            if came is None:
                del self.expected[name]
            else:
                self.expect(name)
        return []


async def _pump(name: str, stream: Coming, arrivals: _Arrivals, steps: GapLimit) -> None:
    try:
        async for time, item in stream:
            quad = Quad(item.subject, item.predicate, item.object)
            await arrivals.queue.put((name, Batch([checked(time, steps)], [quad])))
    except Exception as error:
        await arrivals.queue.put((name, error))
    else:
        await arrivals.queue.put((name, None))
