"""A file of answers that rotates at its maximal size: answers.ndjson, before it answers.ndjson.1, and so on.

A crash may leave a partial last line. It is removed when the file is opened, and its answer is written again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.outputs.sender import AnswerLine
from freshkeeper.maintenance.state.append_log import truncate_partial_line


@dataclass(eq=False)
class RotatingFile:
    """A file of answers as lines, which is renamed when it reaches its maximal size."""

    path: Path
    largest: int
    """bytes at which a new file begins"""
    keep: int
    """number of older files to keep"""

    def __post_init__(self) -> None:
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                truncate_partial_line(self.path)

    @property
    def name(self) -> str:
        """The path as given."""
        return str(self.path)

    def put(self, answers: Sequence[AnswerLine]) -> None:
        """Append a line for each answer in one write, so that a crash leaves at most one partial line."""
        with writing(self.path):
            for answer in answers:
                with self.path.open("ab", buffering=0) as file:
                    file.write(answer.line)
                    size = file.tell()
                if size >= self.largest:
                    self._rotate()

    def close(self) -> None:
        """Do nothing: the file is closed after every line."""

    def _rotate(self) -> None:
        self._older(self.keep).unlink(missing_ok=True)
        for number in range(self.keep - 1, 0, -1):
            if self._older(number).exists():
                self._older(number).replace(self._older(number + 1))
        if self.keep:
            self.path.replace(self._older(1))
        else:
            self.path.unlink()

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
