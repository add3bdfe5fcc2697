"""A program that forks a life for every line that it reads (`lives`, `service_lives`), as a test speaks with it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType


class Forks:
    """The process that forks; it ends when it is closed."""

    def __init__(self, program: ModuleType, pass_fds: Sequence[int] = ()) -> None:
        """Start it."""
        command, pipe = [sys.executable, str(program.__file__)], subprocess.PIPE
        self._process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, pass_fds=pass_fds)

    def ask(self, what: dict[str, object]) -> int:
        """The answer to one line: the process that was forked for it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def wait(self, pid: int) -> None:
        """Until what was forked has ended."""
        self.ask({"wait": pid})

    def close(self) -> None:
        """No more lives."""
        self._process.communicate()
