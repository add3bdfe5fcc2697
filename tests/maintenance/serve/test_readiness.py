"""A service says that it is not ready while it leaves a source alone that a query needs."""

import socket
from pathlib import Path

from servers import eventually
from serving import REACH, E, configured, posts, served

BLOG = f"{E}blog"


def test_a_source_that_is_left_alone_is_named_until_no_query_needs_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}/"
    blog = {"sparql": address, "volatile": f"{E}followers", "retries": 0}
    with served(configured(tmp_path, sources={BLOG: blog})) as client:
        client.register("reach", REACH)
        assert client.get("/readyz").json()["ready"]
        client.push(posts(*range(500, 9_500, 1000)))
        assert eventually(lambda: client.get("/readyz").status_code == 503)
        told = client.get("/readyz").json()
        assert not told["ready"]
        assert told["left_alone"].keys() == {BLOG}
        assert "times in a row" in told["left_alone"][BLOG]
        client.delete("/queries/reach")
        assert client.get("/readyz").json()["ready"]
