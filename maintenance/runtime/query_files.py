"""Files with queries: those of a directory, their texts, and the names that they give."""

from collections.abc import Iterable
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError

QUERY_SUFFIXES = (".rspql", ".rq", ".sparql", ".cqels", ".csparql")
"""The endings of files with queries."""


def files_of(directory: str) -> list[str]:
    """Return the query files of a directory, sorted by name."""
    path = Path(directory)
    if not path.is_dir():
        raise ConfigError(f"{directory} is no directory of queries")
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in QUERY_SUFFIXES and file.is_file())
    if not found:
        raise ConfigError(f"the directory {directory} holds no queries: their files end in {', '.join(QUERY_SUFFIXES)}")
    return [str(file) for file in found]


def names_of(written: Iterable[str]) -> dict[str, str]:
    """Return files, and those of directories, by their names without endings; texts by their positions."""
    found: dict[str, str] = {}
    for number, each in enumerate(written, 1):
        is_directory = "{" not in each and Path(each).is_dir()
        for file in files_of(each) if is_directory else [each]:
            name = f"query{number}" if "{" in file else Path(file).stem
            if name in found:
                raise ConfigError(f"two queries are called {name}: {found[name]} and {file}")
            found[name] = file
    return found


def read_text(written: str) -> str:
    """Return the text of a query: that of a file, or the argument if it is a query."""
    if "{" in written:
        return written
    if not written.strip():
        raise ConfigError("the query is empty: give a file, or a query such as SELECT * { ?s ?p ?o }")
    path = Path(written)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the query {written} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the query {written} is no text in UTF-8") from None
