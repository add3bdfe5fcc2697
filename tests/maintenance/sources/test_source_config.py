"""A source's YAML: every key is in the reference with its default; a mistake is one line that says what is right."""

from pathlib import Path

import pytest
import yaml

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.cache.view.survival import Survival
from freshkeeper.maintenance.sources.source_config import SourceConfig, config_of, read_config, source_reference
from freshkeeper.maintenance.sources.sources import Source, load_source, source_of
from freshkeeper.maintenance.sources.transport import InProcess

CONFIGS = Path(__file__).parents[3] / "configs"
SPARQL = "sparql: http://localhost:7878/query\n"
RESOURCE = """resources:
  - {subject: "http://e/user/{id}", url: "http://host/users/{id}", predicates: {http://e/n: count}}
"""


def test_the_reference_has_every_key_with_its_default_and_a_comment() -> None:
    path = CONFIGS / "source-reference.yaml"
    assert path.read_text() == source_reference()
    assert read_config(path) == SourceConfig(sparql="http://localhost:7878/query")


def test_the_example_is_a_source() -> None:
    source = load_source(str(CONFIGS / "source-sparql.yaml"))
    assert source.price.batch == 50
    assert source.transport.executor.capacity() == 10
    source.transport.close()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("batch: 3\n", "give one of data, sparql, fragments, resources"),
        (SPARQL + "data: blog.ttl\n", "give one of data, sparql, fragments, resources, not data and sparql"),
        (SPARQL + "volatil: x\n", "there is no key 'volatil'; did you mean 'volatile'?"),
        (SPARQL + "auth: {token: X}\n", "there is no key 'auth.token'; there are: bearer, user, password, headers"),
        (SPARQL + "auth: {user: X}\n", "auth: name a variable for bearer, or one for user and one for password"),
        (SPARQL + "volatile: followers\n", "volatile.0: 'followers' is no IRI; write it in full"),
        (SPARQL + "limits: 10 a second\n", "limits.0: '10 a second' is no limit: write 10/s"),
        (SPARQL + "timeout: soon\n", "timeout: soon is no duration"),
        (SPARQL + "max_size: much\n", "max_size: it must be a valid integer"),
        (SPARQL + "batch: 0\n", "batch: it must be greater than or equal to 1, not 0"),
        (SPARQL + "method: put\n", "method: it must be 'auto', 'get' or 'post', not 'put'"),
        (
            SPARQL + "modified: http://e/m\n",
            "modified, survival and annotations are for knowledge: published",
        ),
        (SPARQL + "survival: true\n", "modified, survival and annotations are for knowledge"),
        ("sparql: localhost:7878\n", "sparql: 'localhost:7878' is no address of an HTTP service"),
        ("sparql: http://host:99999/\n", "sparql: 'http://host:99999/' has no port that can be"),
        ("sparql: http://host:port/\n", "sparql: 'http://host:port/' has no port that can be"),
        ("sparql: http://ann:pw@host/\n", "sparql: credentials do not belong into an address"),
        (SPARQL + "limits: [{10: s}]\n", "limits.0: it must be a valid string"),
        (SPARQL + "x: " + "[" * 5_000 + "\n", "is nested too deep to be read"),
        ("data: blog.ttl\nlimits: 10/s\n", "limits is for sources over HTTP"),
        (SPARQL + "changes: c.nq\n", "changes is for sources with data"),
        (RESOURCE + "method: post\n", "method is for sources with sparql"),
        (RESOURCE + "batch: 5\n", "batch: a document is about one key"),
        (RESOURCE.replace("users/{id}", "users"), "resources.0.url: 'http://host/users' must have {id} once"),
        (RESOURCE.replace("http://e/user/", "user/"), "resources.0.subject: 'user/{id}' gives no IRI"),
        (RESOURCE.replace(", predicates: {http://e/n: count}", ""), "resources.0: predicates is missing"),
        (RESOURCE.replace("count", "{path: a}"), "resources.0.predicates.http://e/n: iri is missing"),
        ("- a list\n", "must hold keys and values, not a list"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_right(written: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "blog.yaml").write_text(written)
    with pytest.raises(ConfigError) as refused:
        read_config(tmp_path / "blog.yaml")
    text = str(refused.value)
    assert said in text
    assert "\n" not in text
    assert text.startswith(str(tmp_path / "blog.yaml"))


def test_a_file_that_is_no_yaml_or_not_there_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "blog.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match="is no YAML"):
        read_config(tmp_path / "blog.yaml")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_config(tmp_path / "other.yaml")


def test_an_address_alone_is_a_sparql_endpoint() -> None:
    source = load_source("http://localhost:7878/query")
    assert source.transport.dispatcher is not None
    source.transport.close()
    with pytest.raises(ConfigError, match="the source: sparql: 'http://' is no address"):
        load_source("http://")


def test_paths_are_beside_the_file_and_sizes_are_read_as_written(tmp_path: Path) -> None:
    (tmp_path / "blog.ttl").write_text("<http://e/ann> <http://e/n> 1 .")
    (tmp_path / "blog.yaml").write_text("data: blog.ttl\nvolatile: http://e/n\n")
    source = load_source(str(tmp_path / "blog.yaml"))
    assert isinstance(source.transport.service, InProcess)
    assert (source.volatile, source.model) == (("http://e/n",), None)
    assert config_of({"sparql": "http://h/", "max_size": "5 kB"}, "").max_size == 5_000


def test_only_a_file_that_tells_of_no_changes_is_known_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "blog.ttl").write_text("<http://e/ann> <http://e/n> 1 .")
    (tmp_path / "changes.nq").write_text("")
    assert load_source(str(tmp_path / "blog.ttl")).changing is None
    for more, changing in (
        ("data: blog.ttl\n", None),
        ("data: blog.ttl\nvolatile: http://e/n\n", ("http://e/n",)),
        ("data: blog.ttl\nchanges: changes.nq\n", ()),
        ("data: blog.ttl\nknowledge: published\n", ()),
        ("sparql: http://127.0.0.1:9/\nvolatile: []\n", ()),
    ):
        (tmp_path / "blog.yaml").write_text(more)
        source = load_source(str(tmp_path / "blog.yaml"))
        assert source.changing == changing
        source.transport.close()


def test_published_knowledge_is_a_model_of_its_own_per_source() -> None:
    source = load_source_of("knowledge: published\nmodified: http://purl.org/dc/terms/modified\n")
    assert source.model is not None
    assert isinstance(source.model(), Published)
    assert source.validity.modified == "http://purl.org/dc/terms/modified"
    source.transport.close()


def test_values_that_age_are_known_by_a_survival_curve_where_the_source_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "blog.ttl").write_text("<http://e/ann> <http://e/n> 1 .")
    source = source_of(config_of({"data": tmp_path / "blog.ttl", "knowledge": "published", "survival": True}, "test"))
    assert source.model is not None
    assert isinstance(source.model(), Survival)


def load_source_of(more: str) -> Source:
    return source_of(config_of(yaml.safe_load(SPARQL + more), "test"))
