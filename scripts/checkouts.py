"""Two checkouts of the project, for scripts that compare them: where each is, at which commit, and how to run it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Checkout:
    """A working tree of the project."""

    root: Path

    @classmethod
    def at(cls, path: str) -> "Checkout":
        """Return the checkout at a path; exit with a message if there is none."""
        root = Path(path).resolve()
        if not (root / "freshkeeper" / "__init__.py").is_file():
            print(f"{path} is no checkout of freshkeeper: it has no freshkeeper/__init__.py", file=sys.stderr)
            sys.exit(2)
        return cls(root)

    @property
    def commit(self) -> str | None:
        """The commit that is checked out, or None if it cannot be told or something is changed."""
        changed = self._git("status", "--porcelain")
        if changed is None or any(not line.startswith("?? .") for line in changed.splitlines()):
            return None
        return self._git("rev-parse", "HEAD")

    @property
    def title(self) -> str:
        """The folder and the commit."""
        return f"{self.root.name} ({self.commit[:7] if self.commit else 'changed'})"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment in which the checkout's packages are imported."""
        return {**os.environ, "PYTHONPATH": str(self.root), "PYTHONHASHSEED": "0", **(more or {})}

    def _git(self, *words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", self.root, *words], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None


def interpreter(named: str | None, *checkouts: Checkout) -> str:
    """Return the interpreter that runs all checkouts: the one that was named, or that of the first one's .venv.

    Checkouts without .venv run with that of these scripts' own checkout, or with the interpreter of the script.
    """
    roots = [*(checkout.root for checkout in checkouts), Path(__file__).resolve().parents[1]]
    present = [python for root in roots if (python := root / ".venv/bin/python").exists()]
    return named or str(present[0] if present else sys.executable)
