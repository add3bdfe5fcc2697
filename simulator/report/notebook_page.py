"""A notebook that has run as one offline page: its texts, pictures and folded tables, without its code."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from freshkeeper.maintenance.base.files import whole
from freshkeeper.simulator.report.page import inlined

HERE = Path(__file__).parent
FORMS = ("image/svg+xml", "text/html", "text/plain")
"""What an output is shown as, the first that it has."""


def write(cells: Sequence[Any], out: Path, title: str, command: str) -> None:
    """Write the page of the cells of a notebook."""
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("notebook.html").render(
        title=title, command=command, parts=list(_parts(cells)), css=inlined()["css"]
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole(out) as file:
        file.write_text(page.strip(), "utf-8")


def _parts(cells: Sequence[Any]) -> Iterator[Markup]:
    markdown = MarkdownIt()
    for cell in cells:
        if cell["cell_type"] == "markdown":
            yield Markup(markdown.render(cell["source"]))
        for output in cell.get("outputs", ()):
            yield _shown(output)


def _shown(output: Any) -> Markup:
    if output["output_type"] == "stream":
        return Markup("<pre>{}</pre>").format(output["text"])
    form, text = next((form, output["data"][form]) for form in FORMS if form in output["data"])
    return Markup(text) if form != "text/plain" else Markup("<pre>{}</pre>").format(escape(text))
