"""Why a try to ask a source failed, and what may be done about it; errors begin with their kind (`failures.py`)."""

from freshkeeper.policies.errors import EndpointError


class FetchError(EndpointError):
    """A try that gave no answer."""

    def __init__(
        self, text: str, again: bool = False, wait: float | None = None, refused: bool = False, keys: bool = False
    ) -> None:
        """`again`: another try may go better; `wait`: for so many seconds the source wants no request.

        `refused`: the source is well and the request is not, so one for other keys may go better; `keys`: it may be the
        source, and it may be what is asked for.
        """
        super().__init__(text)
        self.again, self.wait, self.refused, self.keys = again, wait, refused, keys or refused


def unreadable(error: BaseException) -> str:
    """What is told of an answer that nobody knew how to read."""
    if isinstance(error, EndpointError):
        return str(error)
    return f"malformed: the answer cannot be read: {type(error).__name__}: {error}"


class NotSentError(EndpointError):
    """Nothing was sent, and nothing is to be paid: budget, limits or time did not allow it."""
