"""A source as its YAML file says it: one validated model, with one clear line for each mistake.

What a source is follows from the key it has: `data` (RDF in this process), `sparql` (an endpoint over HTTP),
`fragments` (triple or quad pattern fragments over HTTP) or `resources` (JSON documents over HTTP). Secrets stay in the
environment; the file names the variables.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pyoxigraph import NamedNode

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.durations import as_ms
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.reference import reference
from freshkeeper.maintenance.base.shipped_configs import SOURCES
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.base.yaml_file import read_yaml
from freshkeeper.maintenance.fetching.rate_limiter import Rate
from freshkeeper.maintenance.sources.annotations import Annotation
from freshkeeper.maintenance.sources.json_documents import Property, Template
from freshkeeper.maintenance.sources.json_documents import Resource as Documents
from freshkeeper.maintenance.sources.sparql_over_http import Method

KEYS_BY_KIND = {
    "data": ("changes",),
    "sparql": ("method",),
    "fragments": ("hosts", "reuse"),
    "remote": ("auth", "timeout", "deadline", "concurrency", "retries", "limits", "failures", "cool_down", "max_size"),
}
"""Keys that mean nothing for other sources."""
SIZES = {"kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}


def _bytes(written: object) -> object:
    found = re.fullmatch(r"(\d{1,9})\s*([kmg]b)", written.strip().lower()) if isinstance(written, str) else None
    if found:
        return int(found[1]) * SIZES[found[2]]
    return written


def _listed(value: object) -> object:
    if isinstance(value, str):
        return [value]
    return value


def _iri(written: str) -> str:
    try:
        return NamedNode(written).value
    except ValueError:
        raise ValueError(f"{written!r} is no IRI; write it in full, as http://example.org/followers") from None


def _address(written: str) -> str:
    parts = urlsplit(written)
    if parts.username or parts.password:
        raise ValueError("credentials do not belong into an address; name environment variables under auth")
    if parts.scheme not in ("http", "https") or not parts.hostname or not re.fullmatch(r"[!-~]+", written):
        raise ValueError(f"{mask_secrets(written)!r} is no address of an HTTP service; write http://host/path")
    if not _has_port(parts.netloc):
        raise ValueError(f"{mask_secrets(written)!r} has no port that can be: it is a number up to 65535")
    return written


def _has_port(place: str) -> bool:
    """Return whether the port of a place is valid or absent."""
    port = re.search(r":([^:\]]*)$", place)
    return port is None or (re.fullmatch(r"\d{0,5}", port[1], re.ASCII) is not None and int(port[1] or 0) <= 65_535)


def _rate(written: str) -> str:
    try:
        return Rate.of(written).written
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _template(written: str) -> str:
    try:
        Template.of(written)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return written


def _iris(written: str) -> str:
    template = Template.of(_template(written))
    try:
        NamedNode(template.fill("x"))
    except ValueError:
        raise ValueError(f"{written!r} gives no IRI; write it in full, as http://example.org/user/{{id}}") from None
    return written


def _variable(written: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|", written):
        raise ValueError("it must be the name of an environment variable, never what that holds")
    return written


Duration = Annotated[int, BeforeValidator(as_ms), Field(ge=1)]
Size = Annotated[int, BeforeValidator(_bytes), Field(ge=1)]
Iri = Annotated[str, AfterValidator(_iri)]
Iris = Annotated[str, AfterValidator(_iris)]
Address = Annotated[str, AfterValidator(_address)]
Variable = Annotated[str, AfterValidator(_variable)]
Limits = Annotated[list[Annotated[str, AfterValidator(_rate)]], BeforeValidator(_listed)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
RESERVED_HEADERS = (
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "accept",
    "accept-encoding",
)
"""Headers that requests have already."""


class Auth(BaseModel):
    """Names of environment variables: a bearer token, or user and password; and headers such as X-API-Key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bearer: Variable = Field(default="", description="variable with a token, sent as a bearer token")
    user: Variable = Field(default="", description="variable with a user name, for basic authentication")
    password: Variable = Field(default="", description="variable with the password that belongs to it")
    headers: dict[str, Variable] = Field(default={}, description="headers, as X-API-Key, and the variable of each")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for name, variable in self.headers.items():
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or name.lower() in RESERVED_HEADERS:
                raise ValueError("X-API-Key is a name for a header; Host, Content-Length and such are set already")
            if not variable:
                raise ValueError("each must have the name of an environment variable, never what that holds")
        if bool(self.user) != bool(self.password) or (self.bearer and self.user):
            raise ValueError("name a variable for bearer, or one for user and one for password")
        if (self.bearer or self.user) and "authorization" in (name.lower() for name in self.headers):
            raise ValueError("the header Authorization is given twice: leave out bearer and user, or the header")
        return self

    def read(self) -> Credentials:
        named = Credentials.from_headers(self.headers)
        if self.bearer:
            return named.joined(Credentials.bearer(self.bearer))
        if self.user:
            return named.joined(Credentials.basic(self.user, self.password))
        return named


class PlaceConfig(BaseModel):
    """The path of values in a document, and the template that makes IRIs of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    iri: Iris = Field(description="template with {id} in the place of the value")


class ResourceConfig(BaseModel):
    """A kind of document: which subjects it is about, where it is, what its values mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: Iris
    url: Annotated[Address, AfterValidator(_template)]
    predicates: dict[Iri, str | PlaceConfig]

    def documents(self) -> Documents:
        return Documents(
            Template.of(self.subject),
            Template.of(self.url),
            [_property(predicate, place) for predicate, place in self.predicates.items()],
        )


def _property(predicate: str, place: str | PlaceConfig) -> Property:
    if isinstance(place, str):
        return Property(NamedNode(predicate), tuple(place.split(".")))
    return Property(NamedNode(predicate), tuple(place.path.split(".")), Template.of(place.iri))


class SourceConfig(BaseModel):
    """A source with all that can be said of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path | None = Field(default=None, description="RDF in this process: a file, or a directory of them")
    changes: Path | None = Field(
        default=None,
        description="statements with times, which at their time take the place of those with the same subject and "
        "predicate "
        "(with data)",
    )
    sparql: Address | None = Field(default=None, description="the address of a SPARQL endpoint")
    method: Method = Field(
        default=Method.AUTO, description="get, post, or auto: GET as long as the address is short (with sparql)"
    )
    fragments: Address | None = Field(
        default=None, description="the address of any page of triple or quad pattern fragments"
    )
    hosts: Annotated[list[str], BeforeValidator(_listed)] = Field(
        default=[],
        description="hosts, as data.example.org:8080, that pages may lead to beside their own (with fragments)",
    )
    reuse: bool = Field(
        default=True,
        description="whether a page is used again, without a request, until it expires by its Cache-Control or "
        "Expires (with fragments)",
    )
    resources: list[ResourceConfig] = Field(
        default=[],
        description="JSON documents over HTTP. Each kind says which subjects it is about, where the document is, and "
        "what "
        "its values mean: a dotted path (where it meets a list, one value per item), or values that stand for IRIs",
        examples=[
            "- subject: http://example.org/user/{id}\n"
            "  url: https://api.example.org/users/{id}\n"
            "  predicates:\n"
            "    http://example.org/followers: followers.count\n"
            '    http://example.org/knows: {path: friends.id, iri: "http://example.org/user/{id}"}'
        ],
    )
    volatile: Annotated[list[Iri], BeforeValidator(_listed)] = Field(
        default=[], description="the predicates that change; needed to keep a view"
    )
    per_request: Amount = Field(default=1.0, description="cost units of a request")
    per_key: Amount = Field(default=0.0, description="cost units of every key in it")
    batch: int = Field(
        default=1, ge=1, description="keys in a request; a document is about one key, so 1 with resources"
    )
    auth: Auth = Field(
        default=Auth(),
        description="credentials: names of environment variables with a bearer token, or with user and password",
    )
    timeout: Duration = Field(
        default=10_000,
        description="how long a request may take, as 10s; what comes after the evaluation's deadline is used in "
        "a later one",
    )
    deadline: Duration | None = Field(
        default=None, description="how long an evaluation waits for the source; null: nine tenths of the query's step"
    )
    concurrency: int = Field(default=8, ge=1, le=256, description="requests under way at once")
    retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="further tries of a request that failed where that may help; they are paid like any other",
    )
    limits: Limits = Field(
        default=[],
        description="rate limits of the source, all at once, over any stretch of the period",
        examples=["[10/s, 300/15min, 1000/day]"],
    )
    failures: int = Field(
        default=5, ge=1, description="the circuit breaker: failures in a row after which the source is left alone"
    )
    cool_down: Duration = Field(default=30_000, description="for how long, as 30s, until it is tried with one request")
    max_size: Size = Field(default=32_000_000, description="the longest answer that is read, as 32MB")
    knowledge: Literal["learned", "published"] = Field(
        default="learned",
        description="learned: change rates from what refreshes reveal; published: dates that the source tells (HTTP "
        "headers, data)",
    )
    survival: bool = Field(
        default=False,
        description="published: a value lasts as long as those of this source were seen to last, by the times of their "
        "last changes; expiries are not used",
    )
    modified: Iri | None = Field(
        default=None,
        description="published: the predicate that says when a key last changed, as http://purl.org/dc/terms/modified",
    )
    annotations: Annotation = Field(
        default=Annotation.NONE,
        description="published: where tmp:expiration and tmp:interval of volatile triples are: none, graph, "
        "reification or singleton",
    )

    @property
    def addresses(self) -> list[str]:
        endpoints = [each for each in (self.sparql, self.fragments) if each]
        return [*endpoints, *(each.url for each in self.resources)]

    @property
    def kind(self) -> str:
        """The key that says what it is."""
        return next(kind for kind in SOURCES if getattr(self, kind) not in (None, []))

    @property
    def unchanging(self) -> bool:
        """Return whether nothing in the source changes: a file that is read once and states no times."""
        return self.data is not None and self.changes is None and self.knowledge == "learned"

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        given = [kind for kind in SOURCES if getattr(self, kind) not in (None, [])]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(SOURCES)}" + (f", not {' and '.join(given)}" if given else ""))
        for owner, keys in KEYS_BY_KIND.items():
            meant = given[0] != "data" if owner == "remote" else given[0] == owner
            changed = [key for key in keys if getattr(self, key) != type(self).model_fields[key].default]
            if changed and not meant:
                raise ValueError(f"{changed[0]} is for sources {'over HTTP' if owner == 'remote' else f'with {owner}'}")
        if given[0] == "resources" and self.batch > 1:
            raise ValueError("batch: a document is about one key, so a request for resources holds 1 key")
        told = self.modified or self.survival or self.annotations is not Annotation.NONE
        if self.knowledge == "learned" and told:
            raise ValueError("modified, survival and annotations are for knowledge: published")
        return self


HEAD = """\
Every key of a source with its default and its meaning. A source has one of data, sparql, fragments and resources.
  freshkeeper run query.rspql --stream ... --source http://example.org/blog=source.yaml"""


def source_reference() -> str:
    """Return a config with every key, as a file to begin with."""
    return reference(HEAD, SourceConfig(sparql="http://localhost:7878/query"))


def read_config(path: Path) -> SourceConfig:
    """Read a source from its YAML file; paths in it are beside the file."""
    plain = read_yaml(path)
    for key in ("data", "changes"):
        if isinstance(plain.get(key), str):
            plain[key] = str(path.parent / plain[key])
    return config_of(plain, str(path))


def config_of(plain: Mapping[str, object], where: str) -> SourceConfig:
    """Read a source from keys and values; an error says where they come from."""
    return validated(SourceConfig, plain, f"{where}: ")
