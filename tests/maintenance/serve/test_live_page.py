"""The live page in a real browser: what a person on call sees and does, by eye, by mouse and by keyboard."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page, browsed, chromium_binary
from servers import BLOG, Oxigraph, Proxy
from serving import POSTS, REACH, TOPICS, Client, E, configured, posts, served

from freshkeeper.maintenance.serve.security import Guard

pytestmark = pytest.mark.slow

AXE = Path(__file__).parents[3] / ".peers" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
NARROW, WIDE = (360, 780), (1360, 900)
CHANGE = f"""PREFIX : <{E}>
DELETE {{ ?user :followers ?n }} INSERT {{ ?user :followers 99 }} WHERE {{ ?user :followers ?n }}"""
BELIEVED = ".query .believed dd"
HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
SERIOUS = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.target + " " + node.failureSummary).join("; ")}`))"""
BEYOND = """[...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()
  && !one.closest(".table, pre, svg, option, .unseen, .skip, dt, dialog:not([open])")
  && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.tagName + "." + one.className)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests."""
    if chromium_binary() is None:
        pytest.skip("Chromium is missing, so nobody looks at the page: scripts/install-chromium installs it")
    with browsed(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def seen(page: Page) -> Page:
    """As a person sees it first: wide, in the light, and nothing said on the console yet."""
    page.look_like(*WIDE)
    page.console.clear()
    page.failed.clear()
    return page


@pytest.fixture
def blog() -> Iterator[tuple[Oxigraph, Proxy]]:
    """A source that can break."""
    oxigraph = Oxigraph(BLOG)
    proxy = Proxy(oxigraph.port)
    yield oxigraph, proxy
    proxy.stop()
    oxigraph.stop()


class Pushing:
    """Elements as they come in real time, ten a second."""

    def __init__(self, client: Client) -> None:
        self.client, self.over, self.t = client, threading.Event(), 500
        self.thread = threading.Thread(target=self.go)

    def __enter__(self) -> "Pushing":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def go(self) -> None:
        """Until it is over: half a second of event time each time, so that a test has minutes in seconds."""
        while not self.over.wait(0.05):
            self.client.push(posts(self.t) + posts(self.t + 1, topic="rock") + posts(self.t + 2, topic="folk"))
            self.t += 500


def test_a_query_is_registered_answers_come_freshness_changes_and_a_source_breaks_and_heals(
    seen: Page, blog: tuple[Oxigraph, Proxy], tmp_path: Path
) -> None:
    oxigraph, proxy = blog
    remote = {"sparql": proxy.url, "volatile": f"{E}followers", "retries": 0, "failures": 2, "cool_down": "1s"}
    config = configured(tmp_path, sources={f"{E}blog": remote}, budget=2, audit=0.2)
    with served(config) as client, Pushing(client):
        seen.open(f"{client.base_url}/")
        assert seen.shows("#connection", "live")
        assert seen.shows("#verdict", "no query is registered")

        seen.click("#add")
        example = seen.tell("document.getElementById('register-text').value")
        assert f"ON <{POSTS}>" in example
        assert f"SERVICE <{E}blog>" in example
        seen.write("#register-text", f"SELECT *\nFROM NAMED WINDOW <w> ON <{POSTS}> [RANGE 4s STEP 1x]\n{{ ?s ?p ?o }}")
        seen.click("#register button.main")
        assert seen.shows("#register-wrong", "line 2, column")
        assert re.search(r"\n *\^", seen.text("#register-wrong"))
        assert seen.tell("document.activeElement.id") == "register-text"
        assert seen.tell("document.activeElement.selectionStart") > len("SELECT *\n")
        seen.write("#register-name", "reach")
        seen.write("#register-text", REACH)
        seen.click("#register button.main")
        assert seen.shows(".query .name", "reach")
        assert seen.eventually("document.activeElement.innerText.includes('reach')")
        assert seen.shows(".answers td", "jazz")

        assert seen.eventually(f"parseFloat(document.querySelector({BELIEVED!r}).innerText) > 0")
        oxigraph.update(CHANGE)
        assert seen.shows(".answers td", "99")
        assert seen.eventually(f"parseFloat(document.querySelector({BELIEVED!r}).innerText) < 100")
        assert seen.shows(".query .audited dd", "%")
        assert seen.eventually("document.querySelector('.chart path.believed').getAttribute('d').split('L').length > 5")
        assert seen.shows("#stalest td", "%")

        proxy.fault = "broken"
        assert seen.shows(".sources .words", "left alone")
        assert seen.shows("#verdict", "blog does not answer")
        assert seen.shows(".query .what", "blog does not answer")
        proxy.fault = ""
        assert seen.shows("#verdict", "every source answers")
        assert seen.text(".sources .error") == ""
        assert seen.console == []
        assert len(seen.failed) == 1  # the text with a mistake


def test_a_query_is_paused_resumed_and_deleted_after_a_question(seen: Page, tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        for name in ("topics", "others"):
            client.register(name, TOPICS)
        client.push(posts(500, 1500))
        seen.open(f"{client.base_url}/")
        seen.click(".query .name", "topics")
        assert seen.shows(".answers td", "jazz")
        seen.click(".detail summary", "Its text")
        assert seen.shows(".detail pre code", "REGISTER RSTREAM :topics")
        seen.click(".detail button", "Pause")
        assert seen.shows(".query .what", "paused")
        seen.click(".detail button", "Resume")
        assert seen.shows("#verdict", "All 2 queries run")
        for press, left in (("Keep it", 2), ("Delete", 1)):
            seen.click(".detail button", "Delete")
            assert seen.shows("#confirm h2", "Delete topics?")
            seen.click("#confirm button", press)
            assert seen.eventually(f"document.querySelectorAll('.query').length === {left}")
        assert client.get("/queries/topics").status_code == 404
        assert seen.console == []


def test_a_key_is_looked_up(seen: Page, tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        client.register("reach", REACH)
        client.push(posts(500, 1500))
        seen.open(f"{client.base_url}/")
        assert seen.eventually("document.getElementById('look-source').value")
        seen.write("#look-key", f"{E}ann")
        seen.click("#look button")
        assert seen.shows("#looked td", "n: 10")
        seen.write("#look-key", f"{E}nobody")
        seen.press("Enter")
        assert seen.shows("#looked pre", f"holds {E}nobody")
        seen.write("#look-key", f"{E}ann")
        seen.click("#look-fetch")
        seen.click("#look button")
        client.push(posts(2500, 3500))
        assert seen.shows("#looked .note", "It was fetched for this.")
        assert seen.console == []


def test_what_was_not_measured_is_a_gap_and_a_stale_key_is_looked_up(seen: Page, tmp_path: Path) -> None:
    with served(configured(tmp_path, budget=0)) as client:
        client.register("reach", REACH)
        client.push(posts(*range(500, 9_500, 500)) + posts(*range(40_000, 49_500, 500), topic="rock"))
        seen.open(f"{client.base_url}/")
        assert seen.eventually("document.querySelectorAll('.chart rect.gap').length === 2")
        assert seen.eventually("document.querySelector('.chart path.believed').getAttribute('d').split('M').length > 2")
        assert "1 gap" in seen.tell("document.querySelector('.chart').getAttribute('aria-label')")
        assert seen.shows("#stalest td", "lacking")
        seen.click("#stalest button", "jazz")
        assert seen.shows("#looked pre", f"{E}jazz")


def test_what_comes_from_elsewhere_is_text(seen: Page, tmp_path: Path) -> None:
    hostile = f'500\t<{E}p> <{E}topic> {json.dumps(HOSTILE)} .\n1500\t<{E}p> <{E}topic> "x" .\n'
    with served(configured(tmp_path)) as client:
        client.register("topics", TOPICS)
        client.push(hostile)
        seen.open(f"{client.base_url}/")
        assert seen.shows(".answers td", HOSTILE[:20])
        seen.click("#add")
        seen.write("#register-text", f"SELECT {HOSTILE}")
        seen.click("#register button.main")
        assert seen.shows("#register-wrong", HOSTILE[:20])
        assert seen.tell("window.hacked === undefined && !document.querySelector('img')")
        assert "unsafe-inline" not in client.get("/").headers["content-security-policy"]
        seen.tell("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hacked=1>')")
        assert seen.tell("new Promise((done) => setTimeout(() => done(window.hacked === undefined), 200))")


def test_a_service_that_goes_away_is_missed_and_found_again(seen: Page, tmp_path: Path) -> None:
    config = configured(tmp_path)
    with served(config) as client:
        client.register("topics", TOPICS)
        client.push(posts(500, 1500))
        seen.open(f"{client.base_url}/")
        assert seen.shows(".answers td", "jazz")
        port = client.base_url.port or 0
    assert seen.shows("#connection", "no connection since")
    assert seen.shows("#verdict", "This is how it was at")
    with served(config, port=port) as client:
        assert seen.shows("#connection", "live")
        client.push(posts(2500, topic="rock"))
        assert seen.shows(".answers td", "jazz")
        client.push(posts(3500, 4500, topic="rock"))
        assert seen.shows(".answers td", "rock")


SOCKET = """new Promise((done) => {
    const address = location.href.replace("http", "ws") + "queries/topics/answers";
    const socket = new WebSocket(address, ["freshkeeper", "bearer." + %s]);
    socket.onopen = () => done(socket.protocol);
    socket.onerror = () => done("refused");
})"""


def test_a_token_is_asked_for_and_kept_in_the_tab_alone(seen: Page, tmp_path: Path) -> None:
    with served(configured(tmp_path), Guard(b"w" * 16, None)) as client:
        seen.open(f"{client.base_url}/")
        assert seen.shows("#token-why", "bring the token of the service")
        assert seen.shows("#connection", "a token is needed")
        seen.write("#token-word", "x" * 16)
        seen.press("Enter")
        assert seen.eventually("document.getElementById('token').open && !document.getElementById('token-word').value")
        seen.write("#token-word", "w" * 16)
        seen.press("Enter")
        assert seen.shows("#connection", "live")
        kept = "[sessionStorage.length, localStorage.length, document.cookie, location.search + location.hash]"
        assert seen.tell(kept) == [1, 0, "", ""]
        client.headers["Authorization"] = "Bearer " + "w" * 16
        client.register("topics", TOPICS)
        assert seen.tell(SOCKET % "btoa('w'.repeat(16)).replaceAll('=', '')") == "freshkeeper"
        assert seen.tell(SOCKET % "'eA'") == "refused"
        seen.click("#add")
        seen.click("#register button.main")
        assert seen.shows(".query .name", "query-1")


def test_the_keyboard_is_enough(seen: Page, tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        for name in ("reach", "reach-2", "reach-3", "reach-4"):
            client.register(name, REACH)
        client.push(posts(500, 1500, 2500))
        seen.open(f"{client.base_url}/")
        assert seen.shows(BELIEVED, "%")
        seen.press("Tab")
        assert seen.tell("document.activeElement.className") == "skip"
        assert seen.tell("document.activeElement.getBoundingClientRect().left") >= 0
        seen.press("Enter")
        seen.press("Tab")
        assert seen.tell("document.activeElement.innerText") == "running:\nreach"
        assert seen.tell("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        seen.press("Enter")
        assert seen.tell("document.activeElement.getAttribute('aria-expanded')") == "true"
        assert seen.shows(".answers td", "jazz")
        seen.tell("document.querySelector('.chart').focus()")
        assert "believed" in seen.tell("document.activeElement.getAttribute('aria-label')")
        seen.press("ArrowLeft")
        assert seen.shows("figcaption .said", "believed 100.0 %")
        seen.tell("document.getElementById('add').focus()")
        seen.press("Enter")
        assert seen.tell("document.getElementById('register').open")
        seen.press("Escape")
        assert seen.tell("!document.getElementById('register').open && document.activeElement.id") == "add"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Client]:
    """A service with queries that run, one that is paused, and answers."""
    with served(configured(tmp_path)) as client:
        for name in ("reach", "a-query-with-a-name-that-is-as-long-as-names-of-queries-ever-get", "paused"):
            client.register(name, REACH)
        client.post("/queries/paused/pause")
        client.push(posts(500, 1500, 2500))
        yield client


def opened(seen: Page, client: Client, screen: tuple[int, int], dark: bool) -> None:
    """With a query's details."""
    seen.look_like(*screen, dark)
    seen.open(f"{client.base_url}/")
    assert seen.shows(BELIEVED, "%")
    seen.click(".query .name", "reach")
    assert seen.shows(".answers td", "jazz")
    seen.tell("document.querySelector('.detail details').open = true")


@pytest.mark.parametrize("screen", [WIDE, NARROW])
def test_nothing_sticks_out(seen: Page, told: Client, screen: tuple[int, int]) -> None:
    opened(seen, told, screen, False)
    assert seen.tell("innerWidth") == screen[0]
    assert seen.tell("document.documentElement.scrollWidth") <= screen[0]
    assert seen.tell(BEYOND) == []
    assert seen.console == []


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is missing: make peers installs it where npm is")
def test_everybody_can_read_it(seen: Page, told: Client) -> None:
    for screen, dark in ((WIDE, False), (WIDE, True), (NARROW, False), (NARROW, True)):
        opened(seen, told, screen, dark)
        seen.inject(AXE.read_text())
        assert seen.tell(SERIOUS) == []
        for dialog in ("add", "give-token"):
            seen.tell(f"document.getElementById({dialog!r}).click()")
            assert seen.tell(SERIOUS) == []
            seen.press("Escape")
