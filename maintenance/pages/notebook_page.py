"""A notebook that has run as one offline page: its texts, pictures and folded tables, without its code."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from freshkeeper.maintenance.pages.page import Page, Section, write_page

FORMS = ("image/svg+xml", "text/html", "text/plain")
"""The forms in which an output is shown, the best first."""


def write_notebook(cells: Sequence[Any], file: Path, title: str, command: str) -> None:
    """Write the page of the cells of a notebook."""
    section = Section("notebook", "", list(_parts(cells)))
    write_page(Page(kind="Notebook", title=title, sections=[section], command=command), file)


def _parts(cells: Sequence[Any]) -> Iterator[Markup]:
    markdown = MarkdownIt()
    for cell in cells:
        if cell["cell_type"] == "markdown":
            # The page has a title of its own.
            yield Markup(markdown.render(cell["source"]).replace("h1>", "h2>"))
        # What was printed comes in pieces as large as the kernel's buffer was.
        outputs = [output for output in cell.get("outputs", ()) if output.get("name") != "stderr"]
        for kind, group in groupby(outputs, key=lambda output: str(output["output_type"])):
            if kind == "stream":
                yield Markup("<pre>{}</pre>").format("".join(output["text"] for output in group))
            else:
                yield from map(_output, group)


def _output(output: Any) -> Markup:
    form, text = next((form, output["data"][form]) for form in FORMS if form in output["data"])
    if form == "text/plain":
        return Markup("<pre>{}</pre>").format(text)
    return Markup(text)
