"""Files with queries: those of a directory, their texts, and the names that they give."""

from collections.abc import Iterable
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError

QUERY_FILES = (".rspql", ".rq", ".sparql", ".cqels", ".csparql")
"""What the files of a directory end in that are its queries."""


def files_of(directory: str) -> list[str]:
    """The query files of a directory, by name."""
    path = Path(directory)
    if not path.is_dir():
        raise ConfigError(f"{directory} is no directory of queries")
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in QUERY_FILES and file.is_file())
    if not found:
        raise ConfigError(f"the directory {directory} holds no queries: their files end in {', '.join(QUERY_FILES)}")
    return [str(file) for file in found]


def named(written: Iterable[str]) -> dict[str, str]:
    """Files, and those of directories, by their names without endings; texts by their places."""
    found: dict[str, str] = {}
    for number, each in enumerate(written, 1):
        for file in files_of(each) if "{" not in each and Path(each).is_dir() else [each]:
            name = f"query{number}" if "{" in file else Path(file).stem
            if name in found:
                raise ConfigError(f"two queries are called {name}: {found[name]} and {file}")
            found[name] = file
    return found


def read_text(written: str) -> str:
    """The text of a query, from a file or as it is written."""
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
