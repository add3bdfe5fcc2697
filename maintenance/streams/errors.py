"""What can be wrong with a stream: an element that cannot be read, told with its place."""

from policies.errors import InputError


class StreamError(InputError):
    """An element of a stream cannot be read: the stream, the line, the problem."""

    def __init__(self, stream: str, line: int, problem: str) -> None:
        """Place `problem` at a line (from 1) of a stream."""
        super().__init__(f"{stream}, line {line}: {problem}")
        self.stream = stream
        self.line = line
        self.problem = problem
