"""Queries over async iterables: elements are pushed as they come, results are awaited."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping

from pyoxigraph import Quad, Triple

from maintenance.engine.answers import Result
from maintenance.engine.continuous import ContinuousQuery
from maintenance.engine.engine import Engine
from maintenance.streams.batch import Batch, Elements

Coming = AsyncIterable[tuple[int, Triple | Quad]]


async def run_async(
    query: ContinuousQuery, streams: Mapping[str, Coming], delay: int = 0, drain: bool = False
) -> AsyncIterator[Result]:
    """One query over streams that come on their own; several meet in the order in which they arrive."""
    engine = Engine([query], drain)
    for name in streams:
        engine.listen(name, Elements(()), delay)
    arrivals: asyncio.Queue[tuple[str, Batch] | None] = asyncio.Queue(maxsize=1_000)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_pump(name, stream, arrivals)) for name, stream in streams.items()]
        open_streams = len(tasks)
        while open_streams:
            arrived = await arrivals.get()
            if arrived is None:
                open_streams -= 1
                continue
            for result in engine.push(*arrived):
                yield result
    for result in engine.end():
        yield result


async def _pump(name: str, stream: Coming, arrivals: asyncio.Queue[tuple[str, Batch] | None]) -> None:
    try:
        async for time, item in stream:
            await arrivals.put((name, Batch([time], [Quad(item.subject, item.predicate, item.object)])))
    finally:
        await arrivals.put(None)
