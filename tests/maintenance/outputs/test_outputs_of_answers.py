"""Answers to webhooks and files: signed, tried again, buried; rotated, and whole after a kill."""

import hashlib
import hmac
import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hooks import Hook, hook
from pydantic import ValidationError

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.outputs.output_config import OutputConfig
from freshkeeper.maintenance.outputs.result_sink import RotatingFile
from freshkeeper.maintenance.outputs.sender import AnswerLine, AnswerSender
from freshkeeper.maintenance.outputs.webhook import Webhook, secret_of
from freshkeeper.maintenance.streams.live.feed import Backoff, LostError


def answer(t: int) -> AnswerLine:
    return AnswerLine("reach", t, b'{"t": %d, "answers": []}\n' % t)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Hook, Webhook]]:
    with hook() as receiver:
        quick = Backoff(0.001, 0.001)
        yield receiver, Webhook(receiver.url, b"secret", tmp_path / "dead.ndjson", 3, quick, lambda: 1_700_000_000.0)


def test_a_webhook_is_signed_so_that_its_receiver_can_check_it(made: tuple[Hook, Webhook]) -> None:
    receiver, webhook = made
    webhook.put([answer(1000)])
    ((headers, body),) = receiver.came
    assert body == b'{"t": 1000, "answers": []}'
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("reach/1000", "1700000000")
    expected = hmac.new(b"secret", b"reach/1000.1700000000." + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{b64encode(expected).decode()}"


def test_what_may_pass_is_tried_again_under_the_same_id(made: tuple[Hook, Webhook], tmp_path: Path) -> None:
    receiver, webhook = made
    receiver.statuses = [503, 429]
    webhook.put([answer(1000), answer(2000)])
    assert [headers["webhook-id"] for headers, _ in receiver.came] == ["reach/1000"] * 3 + ["reach/2000"]
    assert not (tmp_path / "dead.ndjson").exists()


def test_what_nobody_takes_is_a_dead_letter_and_the_next_goes_on(made: tuple[Hook, Webhook], tmp_path: Path) -> None:
    receiver, webhook = made
    receiver.statuses = [400, 500, 500, 500, 500]
    webhook.put([answer(t) for t in (1000, 2000, 3000, 4000)])
    letters = [json.loads(line) for line in (tmp_path / "dead.ndjson").read_text().splitlines()]
    assert [(one["id"], one["why"]) for one in letters] == [
        ("reach/1000", "HTTP 400 Bad Request"),
        ("reach/2000", "HTTP 500 Internal Server Error, 3 tries"),
        ("reach/3000", "HTTP 500 Internal Server Error, 1 try"),
    ]
    assert letters[1]["answer"] == {"t": 2000, "answers": []}
    assert (webhook.dead, len(receiver.came)) == (3, 6)


def test_a_secret_comes_from_the_environment_alone() -> None:
    assert secret_of("HOOK", {"HOOK": "whsec_" + b64encode(b"abc").decode()}) == b"abc" == b64decode("YWJj")
    assert secret_of("HOOK", {"HOOK": "words"}) == b"words"
    assert secret_of("") is None
    with pytest.raises(ConfigError, match="the environment variable HOOK is not set"):
        secret_of("HOOK", {})
    with pytest.raises(ConfigError, match="value of HOOK behind whsec_ is not base64"):
        secret_of("HOOK", {"HOOK": "whsec_?"})


def test_a_file_rotates_and_keeps_so_many(tmp_path: Path) -> None:
    path = tmp_path / "out" / "answers.ndjson"
    RotatingFile(path, 60, 2).put([answer(t) for t in range(1000, 10_000, 1000)])
    found = {
        file.name: [json.loads(line)["t"] for line in file.read_text().splitlines()] for file in path.parent.iterdir()
    }
    assert found == {"answers.ndjson.2": [4000, 5000, 6000], "answers.ndjson.1": [7000, 8000, 9000]}


@pytest.mark.parametrize("before", [0, 100_000])
def test_a_line_that_a_kill_has_torn_is_cut_away(tmp_path: Path, before: int) -> None:
    path = tmp_path / "answers.ndjson"
    path.write_bytes(b"x" * before + b"\n" + answer(1000).line + b'{"t": 20')
    RotatingFile(path, 1 << 20, 2).put([answer(2000)])
    assert path.read_bytes() == b"x" * before + b"\n" + answer(1000).line + answer(2000).line


def test_answers_wait_for_an_output_that_takes_none() -> None:
    class Broken:
        name, fails = "there", 2
        taken: Sequence[AnswerLine] = ()

        def put(self, answers: Sequence[AnswerLine]) -> None:
            if self.fails:
                self.fails -= 1
                raise LostError("refused")
            self.taken = answers

        def close(self) -> None:
            pass

    output = Broken()
    told: list[str] = []
    sender = AnswerSender(output, told.append, Backoff(0.001, 0.001))
    assert sender.send([answer(1000)])
    assert output.taken == [answer(1000)]
    assert (sender.failures, sender.failure) == (2, "")
    assert told == ["answers do not reach there: refused; trying again", "answers reach there again"]
    output.fails = 1
    sender.stopping.set()
    assert not sender.send([answer(2000)])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"to": "ftp://host/x"}, "'ftp://host/x' is no output: write kafka://broker:9092/TOPIC, https://host/path, or"),
        ({"to": ""}, "is no output"),
        ({"to": "x", "tries": 0}, "greater than or equal to 1"),
    ],
)
def test_an_output_that_is_none_says_what_would_be_right(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        OutputConfig(**given)


@pytest.mark.slow
def test_a_run_sends_its_answers_to_a_webhook_in_place_of_standard_output(tmp_path: Path) -> None:
    (tmp_path / "s.nq").write_text("".join(f"{at}\t<urn:a> <urn:b> <urn:{at}> .\n" for at in (500, 1500, 2500)))
    text = "SELECT ?n FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S] { WINDOW <urn:w> { ?a <urn:b> ?n } }"
    with hook() as receiver:
        command = [sys.executable, "-m", "freshkeeper", "run", text, "--stream", "urn:s=s.nq", "--output", receiver.url]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert [json.loads(body)["t"] for _, body in receiver.came] == [1000, 2000]
    assert receiver.came[0][0]["webhook-id"] == "query/1000"
