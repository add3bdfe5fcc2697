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

AsyncElements = AsyncIterable[tuple[int, Triple | Quad]]
Arrival = Batch | Exception | None
"""Elements, the error that broke a stream, or None at its end."""


async def run_async(
    query: ContinuousQuery | Sequence[ContinuousQuery],
    streams: Mapping[str, AsyncElements],
    delay: int = 0,
    drain: bool = False,
    idle: float | None = None,
    gap: int = LONGEST_GAP,
) -> AsyncIterator[Result]:
    """Run one query, or several, over asynchronous streams, whose elements meet in the order of their arrival.

    A thread evaluates the queries, so that the event loop runs while sources answer. After `idle` seconds without an
    element a stream holds the others back no longer. `gap` is the longest plausible step of a stream's time, in
    milliseconds: an element further ahead is an error.

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
    worker = _Worker()
    try:
        for name in streams:
            arrivals.expect(name)
        while arrivals.expected:
            for name in await arrivals.wait():
                async for result in worker.of(partial(runtime.mark_idle, name)):
                    yield result
            async for result in worker.of(partial(_feed, runtime, arrivals.received)):
                yield result
        async for result in worker.of(runtime.finish):
            yield result
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await worker.close()


def _feed(runtime: QueryRuntime, arrivals: Sequence[tuple[str, Arrival]]) -> Iterator[Result]:
    """Hand arrivals to the runtime, one after the other, and yield the results."""
    for name, arrival in arrivals:
        if isinstance(arrival, Exception):
            raise arrival
        if arrival is None:
            yield from runtime.end(name)
        else:
            yield from runtime.push(name, arrival)


def _read(step: Callable[[], Iterator[Result]], found: list[Result]) -> None:
    """Collect results with all their rows: only the thread that evaluates may read those of pyoxigraph."""
    for result in step():
        len(result.answers)
        found.append(result)


@dataclass(eq=False)
class _Worker:
    """The thread that evaluates, beside the event loop."""

    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "queries"))

    async def of(self, step: Callable[[], Iterator[Result]]) -> AsyncIterator[Result]:
        """Yield the results of a step; if it fails, those before the error."""
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
        """Wait for the evaluation that is running, and end the thread."""
        await asyncio.get_running_loop().run_in_executor(None, self._worker.shutdown)


@dataclass(eq=False)
class _Arrivals:
    """The arrivals of all streams in order, and the streams that are idle."""

    idle_s: float | None
    """seconds without an element after which a stream is idle"""
    expected: dict[str, float] = field(default_factory=dict)
    """open streams, with the time at which they are idle"""
    received: list[tuple[str, Arrival]] = field(default_factory=list)
    """the arrivals that `wait` has taken from the queue"""
    queue: asyncio.Queue[tuple[str, Arrival]] = field(default_factory=lambda: asyncio.Queue(maxsize=1_000))

    def expect(self, name: str) -> None:
        """Expect elements of an open stream from now on."""
        seconds = self.idle_s or float("inf")
        self.expected[name] = asyncio.get_running_loop().time() + seconds

    async def wait(self) -> list[str]:
        """Wait until there are arrivals, which are in `received` then, or streams are idle, which are returned."""
        self.received = []
        first = min(self.expected.values())
        timeout = None
        if first != float("inf"):
            timeout = max(0.0, first - asyncio.get_running_loop().time())
        try:
            self.received.append(await asyncio.wait_for(self.queue.get(), timeout))
        except TimeoutError:
            now = asyncio.get_running_loop().time()
            idle = [name for name, until in self.expected.items() if until <= now]
            self.expected |= dict.fromkeys(idle, float("inf"))
            return idle
        while not self.queue.empty():
            self.received.append(self.queue.get_nowait())
        for name, arrival in self.received:
            if arrival is None:
                del self.expected[name]
            else:
                self.expect(name)
        return []


async def _pump(name: str, stream: AsyncElements, arrivals: _Arrivals, steps: GapLimit) -> None:
    try:
        async for time, item in stream:
            quad = Quad(item.subject, item.predicate, item.object)
            await arrivals.queue.put((name, Batch([checked(time, steps)], [quad])))
    except Exception as error:
        await arrivals.queue.put((name, error))
    else:
        await arrivals.queue.put((name, None))
