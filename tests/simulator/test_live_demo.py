"""The demonstration live: the same two minutes again and again, on a page until somebody has seen enough."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import urllib.request
from itertools import islice, pairwise
from typing import Any

import pytest
from servers import eventually

from freshkeeper.maintenance.serve.serve_config import read_config
from freshkeeper.simulator.demo import write_scene
from freshkeeper.simulator.live_demo import LAP, LiveScene

BEGIN = 1_700_000_000_000


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> LiveScene:
    place = tmp_path_factory.mktemp("demo")
    write_scene(place, seed=0)
    return LiveScene(place, BEGIN)


def test_posts_come_again_and_again_without_a_gap(scene: LiveScene) -> None:
    lap = len((scene.demonstration / "posts.nt").read_text().splitlines())
    posts = list(islice(scene.posts(), 3 * lap))
    assert posts[0][0] == BEGIN
    assert all(before <= after for (before, _), (after, _) in pairwise(posts))
    assert posts[lap][0] == BEGIN + LAP
    assert posts[lap][1].partition("\t")[2] == posts[0][1].partition("\t")[2]
    assert all(line.startswith(f"{at}\t<") for at, line in posts)


def test_followers_change_for_more_than_an_hour_and_every_change_is_one_more(scene: LiveScene) -> None:
    config = read_config(scene.write(), {})
    assert sorted(config.queries) == ["posts-per-topic", "reach", "reach-of-20-seconds"]
    counts: dict[str, int] = {}
    times = []
    for line in (scene.place / "followers.nt").read_text().splitlines():
        read = re.fullmatch(r'(\d+)\t<(\S+)> <\S+> "(\d+)"\S* \.', line)
        assert read
        at, user, count = read.groups()
        assert int(count) == counts.get(user, 1000) + 1
        counts[user] = int(count)
        times.append(int(at))
    assert times == sorted(times)
    assert times[-1] - BEGIN > 3_600_000 + LAP


def test_what_an_earlier_one_kept_goes(scene: LiveScene) -> None:
    scene.write()
    (scene.place / "state" / "log").mkdir(parents=True)
    (scene.place / "state" / "log" / "0000000000.log").write_text("of another hour")
    scene.write()
    assert not (scene.place / "state").exists()


@pytest.mark.slow
def test_in_a_terminal_it_is_live_until_ctrl_c(scene: LiveScene) -> None:
    screen, terminal = pty.openpty()
    program = (
        "import sys, pathlib; from freshkeeper.commands.demo import show_on_page; "
        "show_on_page(pathlib.Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, str(scene.demonstration)]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    said = b""

    def serving() -> re.Match[bytes] | None:
        nonlocal said
        if select.select([screen], [], [], 0.1)[0]:
            said += os.read(screen, 1 << 16)
        return re.search(rb"serving at (http://[\d.:]+) with 3 queries; stop it with Ctrl-C", said)

    try:
        assert eventually(serving, within=60), said.decode()
        found = serving()
        assert found
        address = found[1].decode()
        assert eventually(lambda: all(one["evaluations"] > 100 for one in queries(address)), within=30)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def queries(address: str) -> list[dict[str, Any]]:
    """How each is."""
    with urllib.request.urlopen(f"{address}/status") as told:
        found: list[dict[str, Any]] = json.load(told)["queries"]
        return found
