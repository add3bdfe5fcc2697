"""Experiments about following, as `simulate` runs them."""

import csv
from pathlib import Path

import pytest
from calls import Call


@pytest.mark.slow
def test_clients_of_a_real_server_are_measured_by_simulate(call: Call, tmp_path: Path) -> None:
    given = {"trains": 5, "changes": 2, "clients": 2, "measured": "2s", "lasts": "500ms", "cache": "true"}
    given |= {"speaking": "graph", "timing": "expiration"}
    words = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    code, out, err = call("simulate", "following", "--out", str(tmp_path / "run"), *words)
    assert code == 0, err
    (load_,) = csv.DictReader((tmp_path / "run" / "clients.csv").read_text().splitlines())
    assert int(load_["answers"]) >= 4
    assert float(load_["server_percent"]) > 0
    assert float(load_["kilobytes_each"]) > 0
    assert (tmp_path / "run" / "plots" / "server-cpu.png").exists()
    assert str(tmp_path / "run" / "report.html") in out + err


def test_what_is_of_policies_is_refused(call: Call, tmp_path: Path) -> None:
    code, _, err = call("simulate", "following", "--budget", "3")
    assert code != 0
    assert "has no budget; --set its keys" in err
