"""Errors of requests, in kinds that can be counted.

An error is one line that begins with its kind: `timeout: no answer within 2 s`. Any other beginning counts as `other`.
"""

from freshkeeper.maintenance.base.errors import EndpointError

KINDS = (
    "timeout",  # no answer in time
    "pending",  # it may still come
    "connection",  # refused, reset, no such host
    "limited",  # the source says: too many, or later
    "server",  # 5xx
    "refused",  # 4xx
    "malformed",  # an answer that is none
    "too large",  # an answer without end
    "not sent",  # no budget, no room, or a key that cannot be asked for
)


def kind_of(error: str) -> str:
    kind = error.partition(":")[0]
    if kind in KINDS:
        return kind
    return "other"


class FetchError(EndpointError):
    """An attempt without an answer."""

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
    """Return the error for an answer that no parser takes."""
    if isinstance(error, EndpointError):
        return str(error)
    return f"malformed: the answer cannot be read: {type(error).__name__}: {error}"


class NotSentError(EndpointError):
    """Raised when nothing was sent and nothing is to be paid: budget, limits or time did not allow it."""
