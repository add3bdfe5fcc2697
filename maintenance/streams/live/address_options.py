"""What an address of a stream says behind its question mark."""

from urllib.parse import parse_qsl, urlsplit

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError, nearest


def options_of(url: str, how: str, **known: str | None) -> dict[str, str]:
    """By name; `known` are those that there are, with what holds where nothing is said. None: it must be said."""
    found = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    for name in found:
        if name not in known:
            raise ConfigError(f"the stream {shown(url)}: unknown {name}; {nearest(name, list(known))}")
    for name, default in known.items():
        if default is None and not found.get(name):
            raise ConfigError(f"the stream {shown(url)} does not say {name}: {how}")
    return {name: found.get(name, default or "") for name, default in known.items()}
