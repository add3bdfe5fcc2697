"""Every error of ours, in one tree; the command line prints the message alone and exits with its code.

FreshkeeperError
├── ReaderGoneError    nobody reads the output any more (exit code 141)
├── ConfigError        a key, a name or a value that was given is wrong (exit code 2)
│   ├── UnknownPolicyError  no such policy, or a plug-in that did not load
│   ├── UnknownSettingError a policy or a config has no such key
│   ├── UnknownNameError    no query, stream or source of this name
│   ├── StorageError        a full disk, too many open files: it may pass (exit code 75: try again later)
│   └── MissingExtraError   a library that not everybody needs is not installed
├── InputError         data that came in is wrong: a trace, a stream, an arrival (exit code 2)
│   ├── InputLostError an input cannot be reached, or broke off (exit code 75: try again later)
│   ├── TimeError      time went backwards, or an arrival lies after its evaluation
│   ├── RunError       a run directory that is none, or cannot be read (maintenance/journal/run_json.py)
│   ├── StreamError    an element of a stream cannot be read (maintenance/streams/read_errors.py)
│   └── QuerySyntaxError, DialectError, SplitError   a query that cannot be (maintenance/query/syntax/query_errors.py)
├── PolicyError        a policy broke its contract
│   ├── OverspentError      it chose more than the budget pays for
│   └── BadSelectionError   strangers, duplicates, or a case or knowledge that it does not handle
├── BudgetError        the ledger was asked for something it cannot give
└── EndpointError      a source answered with something that is no answer
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class FreshkeeperError(Exception):
    """The root: catch this to catch all that freshkeeper raises on purpose.

    >>> from freshkeeper import BudgetRule, FreshkeeperError
    >>> try:
    ...     BudgetRule.of(-1)
    ... except FreshkeeperError as error:
    ...     print(error)
    a budget per evaluation must be zero or more cost units, not -1
    """

    exit_code = 1


class StoppedError(FreshkeeperError):
    """The run was stopped by a signal; the message says how to resume it."""

    exit_code = 130


class ReaderGoneError(FreshkeeperError):
    """The reader of the output has closed it: nothing is printed, and the exit code is that of SIGPIPE."""

    exit_code = 141


class ConfigError(FreshkeeperError):
    """A key, a name or a value that was given is wrong."""

    exit_code = 2


class UnknownPolicyError(ConfigError):
    """An unknown policy, or a plug-in that did not load."""


class UnknownSettingError(ConfigError):
    """A policy or a config has no such key."""


class UnknownNameError(ConfigError):
    """An unknown name; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        there = list(known)
        super().__init__(f"there is no {kind} {name!r}" + (f"; {nearest(name, there)}" if there else ""))


class StorageError(ConfigError):
    """A write failed for a reason that may pass: a full disk, too many open files, a lock."""

    exit_code = 75

    def __init__(self, message: str, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full
        """True if the disk has no room left"""


class MissingExtraError(ConfigError, ImportError):
    """A library that not everybody needs is not installed."""


class InputError(FreshkeeperError):
    """Data that came in is wrong."""

    exit_code = 2


class InputLostError(InputError):
    """An input cannot be reached or broke off: nothing is wrong with what was given, and later it may work."""

    exit_code = 75


class TimeError(InputError):
    """Time went backwards, or an arrival lies after its evaluation."""


class PolicyError(FreshkeeperError):
    """A policy broke its contract."""


class OverspentError(PolicyError):
    """A policy chose more than the budget pays for."""


class BadSelectionError(PolicyError):
    """A selection with strangers or duplicates, or a round that the policy does not handle."""


class BudgetError(FreshkeeperError):
    """The ledger was asked for something it cannot give."""


class EndpointError(FreshkeeperError):
    """A source answered with something that is no answer."""


def nearest(name: str, known: list[str]) -> str:
    """Return the end of an error about an unknown name: the nearest match, or all names."""
    from difflib import get_close_matches  # few programs make a mistake, and it takes a while

    match = get_close_matches(name, known, n=1)
    if match:
        return f"did you mean {match[0]!r}?"
    return f"there are: {', '.join(sorted(known))}"


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise UnknownNameError for a name that is not known."""
    there = [str(each) for each in known]
    if name not in there:
        raise UnknownNameError(kind, name, there)


EXTRAS = {
    "IPython": "notebook",
    "altair": "report",
    "duckdb": "analysis",
    "highspy": "bounds",
    "jinja2": "report",
    "jupytext": "notebook",
    "markdown_it": "notebook",
    "markupsafe": "report",
    "nbclient": "notebook",
    "networkx": "graph",
    "numba": "manager",
    "numpy": "manager",
    "pandas": "spark",
    "prometheus_client": "run",
    "pulp": "bounds",
    "pyarrow": "run",
    "pydantic": "run",
    "pyoxigraph": "rdf",
    "pyspark": "spark",
    "confluent_kafka": "kafka",
    "opentelemetry": "telemetry",
    "redis": "redis",
    "scipy": "manager",
    "simpy": "simulate",
    "sqlalchemy": "sql",
    "starlette": "serve",
    "uvicorn": "serve",
    "websockets": "serve",
    "SPARQLWrapper": "run",
    "vl_convert": "report",
    "yaml": "run",
}
"""Which extra brings a library that the core does without."""


@contextmanager
def naming_extra(wanted: str, extra: str = "") -> Iterator[None]:
    """Raise MissingExtraError, which says what to install, for an import of a library that only an extra brings.

    `extra` is the one to name if `wanted` needs more than this library. Errors about other modules pass.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        install = f'pip install "freshkeeper[{extra or EXTRAS[library]}]"'
        raise MissingExtraError(f"{wanted} needs {library}, which is not installed: {install}") from error
