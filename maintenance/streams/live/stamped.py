"""What a message of a broker has: lines of elements, or statements that have the message's time."""


def stamped(value: bytes, time: int | None) -> bytes:
    """Lines of elements; statements without a time of their own get that of their message."""
    if not value.strip():
        return b""
    if time is not None and value[:1] in (b"<", b"_"):
        at = b"%d\t" % time
        return b"".join(at + line + b"\n" for line in value.splitlines() if line.strip())
    return value if value.endswith(b"\n") else value + b"\n"
