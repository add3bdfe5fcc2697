"""What can be wrong with a stream: an element that cannot be read, told with its place."""

from freshkeeper.maintenance.base.errors import InputError


class StreamError(InputError):
    """An element of a stream cannot be read: the stream, the place in it, the problem."""

    def __init__(self, stream: str, place: int | str, problem: str) -> None:
        """Place `problem` at a line (from 1) of a stream, or where the words say."""
        super().__init__(f"{stream}, {f'line {place}' if isinstance(place, int) else place}: {problem}")
