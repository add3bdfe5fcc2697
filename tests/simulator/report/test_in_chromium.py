"""The page in a real browser: nothing on the console, plots drawn, readable on a phone, in the dark and on paper."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Chromium
from PIL import Image

from freshkeeper.maintenance.pages.amounts import shortened
from freshkeeper.simulator.report.page import write_report

pytestmark = pytest.mark.slow

END = "</body>\n</html>"
PROBE = """
<script>
(async () => {
  const ready = () => document.documentElement.dataset.plots;
  while (!ready()) await new Promise((next) => setTimeout(next, 20));
  const root = document.documentElement;
  const told = {plots: ready(), width: innerWidth, wide: root.scrollWidth, sizes: [], beyond: []};
  for (const plot of document.querySelectorAll(".plot"))
    told.sizes.push([plot.querySelectorAll("svg path").length, plot.clientWidth, plot.firstElementChild.clientWidth]);
  for (const part of document.querySelectorAll("body *"))
    if (!part.closest(".table, svg, option") && part.getBoundingClientRect().right > innerWidth + 1)
      told.beyond.push(part.tagName + "." + part.className);
  const chooser = document.getElementById("g0-setting");
  const drawing = () => document.querySelector("#g0-over-time svg").innerHTML;
  const before = drawing(), words = document.querySelector("#g0-over-time").getAttribute("aria-label");
  chooser.selectedIndex = 4;
  chooser.dispatchEvent(new Event("change"));
  await new Promise((next) => setTimeout(next, 500));
  told.redrawn = before !== drawing() && words !== document.querySelector("#g0-over-time").getAttribute("aria-label");
  const tables = [...document.querySelectorAll('[data-chooser="g0-setting"]')];
  told.tables = tables.filter((table) => !table.hidden).map((table) => table.dataset.choice);
  told.chosen = chooser.value;
  parent.postMessage(JSON.stringify(told), "*");
})();
</script>
"""
NAMES = """
<script>
(async () => {
  while (!document.documentElement.dataset.plots) await new Promise((next) => setTimeout(next, 20));
  const room = (word) => word.ownerSVGElement.getBoundingClientRect().right - word.getBoundingClientRect().right;
  const words = [...document.querySelectorAll("#g0-by-law svg text")].map((word) => [word.textContent, room(word)]);
  parent.postMessage(JSON.stringify(Object.fromEntries(words)), "*");
})();
</script>
"""
# A window cannot be as narrow as a phone; a frame can.
FRAME = """<!doctype html>
<pre id="told"></pre>
<iframe src="page.html" style="width: {width}px; height: 800px; border: 0"></iframe>
<script>addEventListener("message", (event) => document.getElementById("told").textContent = event.data);</script>
"""


@pytest.fixture(scope="module")
def probed(whole_page: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with a script that says what it sees, and chooses another setting."""
    page = tmp_path_factory.mktemp("probed") / "page.html"
    source = whole_page.read_text("utf-8")
    assert source.endswith(END)
    page.write_text(source.removesuffix(END) + PROBE + END, "utf-8")
    return page


def told(dom: str) -> dict[str, Any]:
    """What the script saw."""
    text = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    assert text
    found: dict[str, Any] = json.loads(text[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    return found


@pytest.mark.parametrize("width", [1200, 360])
def test_every_plot_is_drawn_and_nothing_sticks_out(chromium: Chromium, probed: Path, width: int) -> None:
    frame = probed.with_name(f"{width}.html")
    frame.write_text(FRAME.format(width=width))
    dom, console = chromium.run(frame, "--dump-dom", width=1300)
    assert console == []
    seen = told(dom)
    assert seen["width"] == width
    assert int(seen["plots"]) == len(seen["sizes"]) == 30
    assert all(paths > 5 for paths, _, _ in seen["sizes"])
    assert all(abs(place - drawing) <= 2 for _, place, drawing in seen["sizes"])
    assert seen["wide"] <= width
    assert seen["beyond"] == []
    assert seen["redrawn"]
    assert seen["tables"] == [seen["chosen"]]


def test_on_a_phone_the_names_beside_a_panel_of_words_are_whole(
    chromium: Chromium, make_run: Callable[..., Path], tmp_path: Path
) -> None:
    settings = {law: {"varied": {"law": law}} for law in ("fixed", "poisson")}
    long = "gain(explore=0.125, prior=beta, cool_down_ms=60000)"
    fresh = {law: {"lru": [0.3, 0.4], "fba(literal=true)": [0.7, 0.8], long: [0.5, 0.6]} for law in settings}
    page = write_report(make_run(fresh, settings=settings), tmp_path / "page.html")
    page.write_text(page.read_text("utf-8").removesuffix(END) + NAMES + END, "utf-8")
    frame = tmp_path / "phone.html"
    frame.write_text(FRAME.format(width=390))
    seen = told(chromium.run(frame, "--dump-dom")[0])
    assert {"fba(literal=true)", shortened(long), "lru", "fixed", "poisson"} <= seen.keys()
    assert [word for word, room in seen.items() if room < 0] == []


def look(chromium: Chromium, page: Path, file: Path, *flags: str) -> Image.Image:
    """A screenshot."""
    chromium.run(page, f"--screenshot={file}", *flags, width=1000, height=3000)
    return Image.open(file).convert("RGB")


def test_in_the_light_and_in_the_dark_there_is_something_to_see(
    chromium: Chromium, whole_page: Path, tmp_path: Path
) -> None:
    light = look(chromium, whole_page, tmp_path / "light.png", "--blink-settings=preferredColorScheme=1")
    dark = look(chromium, whole_page, tmp_path / "dark.png", "--blink-settings=preferredColorScheme=0")
    for picture, paper, blue in ((light, (255, 255, 255), (0, 114, 178)), (dark, (21, 24, 28), (74, 163, 224))):
        colours = {colour: count for count, colour in picture.getcolors(picture.width * picture.height) or []}
        assert max(colours, key=lambda colour: colours[colour]) == paper
        assert colours[blue] > 50
        assert len(colours) > 200


def test_it_prints(chromium: Chromium, whole_page: Path, tmp_path: Path) -> None:
    paper = tmp_path / "page.pdf"
    _, console = chromium.run(whole_page, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    assert console == []
    printed = paper.read_bytes()
    assert printed.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 20
