"""What the live page is made of, as it is sent."""

import re
from pathlib import Path

from serving import configured, served

from freshkeeper.maintenance.serve.live_page import FILES
from freshkeeper.maintenance.serve.security import Guard


def test_every_part_is_sent_to_anybody_and_asks_no_other_host(tmp_path: Path) -> None:
    with served(configured(tmp_path), Guard(b"w" * 16, None)) as client:
        page = client.get("/")
        parts = re.findall(r'(?:src|href)="(page/[^"]+)"', page.text)
        parts += [
            f"page/{name}" for file in FILES.glob("*.js") for name in re.findall(r'from "\./([^"]+)"', file.read_text())
        ]
        assert len(set(parts)) == len(list(FILES.iterdir()))  # without the page itself, with the colours of all pages
        for response in [page, *(client.get(f"/{part}") for part in parts)]:
            assert response.status_code == 200
            rules = response.headers["content-security-policy"]
            assert "default-src 'none'" in rules
            assert "unsafe" not in rules
            assert response.headers["x-content-type-options"] == "nosniff"
        assert client.get("/page/nothing.js").status_code == 404
        assert client.get("/page/../live_page.py").status_code == 404
        assert client.get("/status").status_code == 401


def test_nothing_in_it_makes_markup_of_text() -> None:
    for file in FILES.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", file.read_text()
        )
    assert not re.search(r"\bstyle=|\bon\w+=|<script>", (FILES / "index.html").read_text())
