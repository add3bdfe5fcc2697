"""Standard streams that are closed, full or read by nobody are one line or none, and never a traceback."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest

FULL = Path("/dev/full")
QUERY = "SELECT ?s FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT1S STEP PT1S] { WINDOW <urn:w> { ?s ?p ?o } }"
VERBS = [["policies"], ["config", "list", "--json"], ["explain", QUERY], ["run", "--help"]]
full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def freshkeeper(*words: str, closed: Sequence[int] = (), **streams: IO[str]) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {" ".join(f"{number}>&-" for number in closed)}', "sh"]
    command += [sys.executable, "-m", "freshkeeper", *words]
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run(command, text=True, timeout=240, check=False, **given)


@pytest.mark.slow
@full
@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:2])[:20])
def test_output_that_is_full_is_one_line(words: list[str]) -> None:
    with FULL.open("w") as out:
        done = freshkeeper(*words, stdout=out)
    assert (done.returncode, done.stderr) == (
        75,
        "freshkeeper: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:2])[:20])
def test_output_that_nobody_reads_is_no_line(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        done = freshkeeper(*words, stdout=out)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
@full
def test_news_on_a_full_disk_are_lost_and_the_answers_are_not(tmp_path: Path) -> None:
    (tmp_path / "s.nq").write_text("1\t<urn:a> <urn:b> <urn:c> .\nnone\n2000\t<urn:a> <urn:b> <urn:c> .\n")
    with FULL.open("w") as news:
        options = ("--on-error", "skip", "--log", "debug")
        done = freshkeeper("run", QUERY, "--stream", f"urn:s={tmp_path}/s.nq", *options, stderr=news)
    assert (done.returncode, done.stdout.count("\n")) == (0, 2)


@pytest.mark.slow
def test_input_that_is_closed_is_one_line() -> None:
    done = freshkeeper("run", QUERY, "--stream", "urn:s=-", closed=[0])
    assert (done.returncode, done.stderr) == (2, "freshkeeper: the stream standard input is closed\n")
