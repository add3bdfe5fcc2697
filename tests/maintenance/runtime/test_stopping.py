"""A run that is told to stop: what is being evaluated goes out first, what waits stops at once."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import Signals

import pytest

from freshkeeper.commands.interrupts import Stopping
from freshkeeper.maintenance.base.errors import StoppedError
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

QUERY = "SELECT ?n FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S] { WINDOW <urn:w> { ?a <urn:b> ?n } }"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[tuple[Session, Callable[..., object]]]:
    fifo = tmp_path / "s.nq"
    os.mkfifo(fifo)
    writing = os.open(fifo, os.O_RDWR)
    made = Session(config_of({"query": QUERY, "streams": {"urn:s": str(fifo)}}), parse(QUERY))
    yield made, lambda text: os.write(writing, text.encode())
    os.close(writing)


def lines(*times: int) -> str:
    return "".join(f"{at}\t<urn:a> <urn:b> <urn:{at}> .\n" for at in times)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_an_evaluation_lets_it_go_out(
    session: tuple[Session, Callable[..., object]], number: Signals
) -> None:
    made, write = session
    write(lines(500, 1500, 2500, 3500))
    out: list[int] = []

    def go_on(stopping: Stopping) -> None:
        made.before_waiting(stopping.check)
        for result in made.results():
            if not out:
                os.kill(os.getpid(), number)
            out.append(result.t)
            stopping.check()

    with Stopping(lambda: made.waits).listening() as stopping, pytest.raises(StoppedError) as stopped:
        go_on(stopping)
    assert (out, stopped.value.exit_code) == ([1000], 128 + number)


def test_a_signal_while_nothing_comes_ends_it_at_once_and_one_before_it_waits_too(
    session: tuple[Session, Callable[..., object]],
) -> None:
    made, write = session
    write(lines(500, 1500))
    results = made.results()
    with Stopping(lambda: made.waits).listening() as stopping:
        made.before_waiting(stopping.check)
        assert next(results).t == 1000
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(StoppedError, match="stopped by SIGTERM; what is finished is kept"):
            next(results)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_the_second_signal_ends_it_wherever_it_is() -> None:
    with Stopping(lambda: False).listening(), pytest.raises(KeyboardInterrupt):  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
