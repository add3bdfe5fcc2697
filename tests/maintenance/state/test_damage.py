"""A disk that fails: whatever it does to a state, the run says so in one line or goes on as if nothing had happened."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_files import RunFiles

from freshkeeper.maintenance.base.errors import ConfigError

FLIPS = int(os.environ.get("FRESHKEEPER_FLIPS", "60"))


def flip(file: Path, rng: random.Random) -> None:
    """One bit where something is written, mostly; or some bytes in a row; or its end is missing."""
    content = bytearray(file.read_bytes())
    at = rng.choice([place for place, byte in enumerate(content) if byte])
    kind = rng.random()
    if kind < 0.8:
        content[at] ^= 1 << rng.randrange(8)
    elif kind < 0.95:
        content[at : at + 64] = rng.randbytes(len(content[at : at + 64]))
    else:
        del content[at:]
    file.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["state.sqlite", "state.sqlite-wal"])
def test_a_damaged_state_is_refused_in_one_line_or_as_good_as_before(name: str, world: RunFiles) -> None:
    rng, state, copy = random.Random(f"{name} {FLIPS}"), world.place / "state", world.place / "copy"
    run = world.run(world.session(state=state, policy="lru"))
    whole = [next(run) for _ in range(12)]
    if name == "state.sqlite":
        run.close()
    shutil.copytree(state, world.place / "kept")  # as a kill leaves it
    run.close()
    expected: list[Any] = []
    refused: list[str] = []
    for n in range(FLIPS + 1):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(world.place / "kept", copy)
        if n:
            flip(copy / name, rng)
        try:
            lines = world.lines(state=copy, policy="lru")
        except ConfigError as error:
            refused.append(str(error))
            continue
        expected = expected or lines
        times = [line["t"] for line in lines]
        if name == "state.sqlite":
            assert lines == expected
        else:  # what is damaged in it was never written
            assert times[0] <= whole[-1]["t"] + 1000
            assert times[-len(expected) :] == [line["t"] for line in expected]
    print(f"{len(refused)} of {FLIPS} refused")
    assert [said for said in refused if not said.startswith(f"--state {copy} ") or "\n" in said] == []
    assert (len(refused) > FLIPS / 2) == (name == "state.sqlite")


def test_a_letter_of_a_definition_that_is_none_any_more_is_one_line_too(world: RunFiles) -> None:
    world.lines(state=world.place / "state", stop=2)
    file = world.place / "state" / "state.sqlite"
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE srs", b"CREATE TABLE\xa0srs"))
    with pytest.raises(ConfigError, match="holds no state that can be read: "):
        world.session(state=world.place / "state")
