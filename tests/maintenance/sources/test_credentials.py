"""Credentials come from the environment, reach the source, and are shown nowhere."""

import base64
from pathlib import Path

import pytest
from commands import freshkeeper
from pyarrow import parquet
from servers import MakeProxy

from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.runtime.run_config import config_of as run_config_of
from freshkeeper.maintenance.sources.source_config import config_of

E = "http://example.org/"
TOKEN = "tok/en+8Zq=1x"
PASSWORD = "pass wörd".replace("ö", "o") + "%7"
STREAM = f"1000\t<{E}p1> <{E}topic> <{E}jazz> .\n2000\t<{E}p2> <{E}topic> <{E}rock> .\n"
QUERY = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""


BEARER, BASIC = "{bearer: BLOG_TOKEN}", "{user: BLOG_USER, password: BLOG_PASSWORD}"


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "auth"), [("", BASIC), ("echo", BEARER), ("echo", BASIC), ("moved", BEARER)])
def test_a_run_shows_its_credentials_to_the_source_alone(
    fault: str, auth: str, proxied: MakeProxy, tmp_path: Path
) -> None:
    proxy = proxied(fault)
    (tmp_path / "blog.yaml").write_text(f"sparql: {proxy.url}\nvolatile: {E}followers\nauth: {auth}\nretries: 0\n")
    (tmp_path / "s.nq").write_text(STREAM)
    (tmp_path / "q.rspql").write_text(QUERY)
    words = ["--stream", f"{E}s=s.nq", "--source", f"{E}blog=blog.yaml"]
    words += ["--journal", "journal", "--state", "state", "--log", "debug"]
    environment = {"PATH": "", "BLOG_TOKEN": TOKEN, "BLOG_USER": "ann", "BLOG_PASSWORD": PASSWORD}
    ran = freshkeeper(tmp_path, "run", "q.rspql", *words, environment=environment)
    assert ran.returncode == 0, ran.stderr
    both = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()
    expected = f"Authorization: Bearer {TOKEN}" if "bearer" in auth else f"Authorization: Basic {both}"
    assert all(expected in head for head in proxy.heads)
    assert proxy.heads
    written = [ran.stdout.encode(), ran.stderr.encode()]
    written += [_content(file) for file in tmp_path.rglob("*") if file.is_file()]
    for secret in (TOKEN, PASSWORD, both):
        assert not [text for text in written if secret.encode() in text]
    if fault == "echo":
        assert [text for text in written if b"***" in text], "the error is there, without what the source echoed"


def _content(file: Path) -> bytes:
    return str(parquet.read_table(file).to_pylist()).encode() if file.suffix == ".parquet" else file.read_bytes()


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(ConfigError, match="the environment variable NO_SUCH_TOKEN is not set"):
        Credentials.bearer("NO_SUCH_TOKEN", {})


@pytest.mark.parametrize("value", ["two\nlines", "schlüssel"])
def test_a_value_that_no_header_can_carry_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(ConfigError, match="TOKEN holds characters that no HTTP header can carry") as refused:
        Credentials.bearer("TOKEN", {"TOKEN": value})
    assert value not in str(refused.value)


def test_credentials_do_not_print_themselves() -> None:
    assert TOKEN not in repr(Credentials.bearer("TOKEN", {"TOKEN": TOKEN}))


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="credentials do not belong into an address") as refused:
        config_of({"sparql": "http://ann:secret@host/query"}, "blog.yaml")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "given", [{"bearer": "sk-s3cret"}, {"bearer": ["s3cret"]}, "s3cret", {"user": "ann", "password": "s3cret!"}]
)
def test_a_secret_in_the_place_of_a_variables_name_is_refused_without_showing_it(
    given: dict[str, object] | str,
) -> None:
    with pytest.raises(ConfigError, match="auth") as refused:
        config_of({"sparql": "http://host/query", "auth": given}, "blog.yaml")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["http://ann:s3cret@host/query", "http://ann:s3 cret@host/q", "http://ann:s3cret@host:x/"]
)
def test_a_password_in_a_source_within_a_run_is_not_shown(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^sources.http://e/s.sparql: credentials do not belong") as refused:
        run_config_of({"query": "q.rspql", "sources": {"http://e/s": {"sparql": address}}})
    assert "cret@" not in str(refused.value)


def test_what_is_echoed_in_json_or_with_blanks_run_together_is_masked() -> None:
    credentials = Credentials.bearer("TOKEN", {"TOKEN": 'a"b  \\c'})
    assert credentials.mask('as {"k": "a\\"b  \\\\c"}, a\\"b \\\\c and a"b \\c') == 'as {"k": "***"}, *** and ***'


def test_encoded_forms_are_masked_too() -> None:
    credentials = Credentials.bearer("TOKEN", {"TOKEN": "a/b c"})
    assert credentials.mask("at http://h/?k=a%2Fb%20c and a/b+c and a/b c") == "at http://h/?k=*** and *** and ***"
