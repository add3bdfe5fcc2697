"""Why an entry could not be fetched, in kinds that can be counted.

An error is one line that begins with its kind: `timeout: no answer within 2 s`. What begins otherwise is `other`.
"""

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
    """The kind that an error begins with."""
    kind = error.partition(":")[0]
    return kind if kind in KINDS else "other"
