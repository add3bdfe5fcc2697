"""What is shipped for operations: every file can be read, and every metric that it asks for is there."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from serving import BLOG, REACH, configured, posts, served

from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.serve.serve_config import ServeConfig

DEPLOY = Path(__file__).parents[1] / "deploy"
BUCKETS = ("_bucket", "_sum", "_count")


def expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana/dashboards/freshkeeper.json").read_text())
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    return [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]] + [rule["expr"] for rule in rules]


def test_every_metric_of_alerts_and_dashboard_is_told_by_a_service(tmp_path: Path) -> None:
    asked = {name for text in expressions() for name in re.findall(r"freshkeeper_[a-z_]+", text)}
    assert len(asked) > 20
    with served(configured(tmp_path, audit=0.1)) as client:
        client.register("reach", REACH)
        client.push(posts(500, 1500))
        families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", client.get("/metrics").text, re.M))
    histograms = [name + end for name, kind in families.items() if kind == "histogram" for end in BUCKETS]
    assert asked - families.keys() - set(histograms) == set()


def test_the_labels_that_alerts_speak_of_are_those_of_their_metrics(tmp_path: Path) -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    with served(configured(tmp_path, outputs={"file": str(tmp_path / "out")})) as client:
        client.register("reach", REACH)
        client.push(posts(500, 1500))
        text = client.get("/metrics").text
    for rule in rules:
        wanted = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        for name in set(re.findall(r"freshkeeper_[a-z_]+", rule["expr"])):
            for line in re.findall(rf"^{name}\{{(.*)\}}", text, re.M):
                assert all(f'{label}="' in line for label in wanted), (rule["alert"], line)


def test_the_config_of_the_containers_is_one_and_its_paths_are_those_of_compose() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    config = yaml.safe_load((DEPLOY / "serve.yaml").read_text())
    assert validated(ServeConfig, config).streams
    mounted = [volume.split(":") for volume in compose["services"]["freshkeeper"]["volumes"]]
    assert all((DEPLOY / here).exists() for here, *_ in mounted if here.startswith("./") and "secrets" not in here)
    inside = [there for _, there, *_ in mounted]
    files = [config["token"], config["read_token"], config["state"], *(s["data"] for s in config["sources"].values())]
    assert all(any(file.startswith(there) for there in inside) for file in files)
    assert (DEPLOY / "blog.ttl").read_text().split() == BLOG.split()
    docker = (DEPLOY / "Dockerfile").read_text()
    (named,) = re.findall(r"/source\[(.*)\]", docker)
    extras = set(named.split(","))
    text = (DEPLOY.parent / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", text, re.M) for extra in extras)
    for name in ("datasources/prometheus.yaml", "dashboards/freshkeeper.yaml"):
        assert yaml.safe_load((DEPLOY / "grafana/provisioning" / name).read_text())["apiVersion"] == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: Debian has it in the package prometheus")
def test_prometheus_takes_its_config_and_the_alerts(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "deploy" / "read_token").write_text("word")
    asked = [{"record": f"asked:{n}", "expr": expression} for n, expression in enumerate(expressions())]
    (tmp_path / "deploy" / "asked.yaml").write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": asked}]}))
    for what, file in (("config", "prometheus.yaml"), ("rules", "alerts.yaml"), ("rules", "asked.yaml")):
        command = ["promtool", "check", what, str(tmp_path / "deploy" / file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("name", ["freshkeeper.service", "freshkeeper-run@.service"])
def test_systemd_takes_the_units(tmp_path: Path, name: str) -> None:
    unit = (DEPLOY / name).read_text().replace("/opt/freshkeeper/bin/freshkeeper", str(shutil.which("true")))
    (tmp_path / name).write_text(unit)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "freshkeeper" in line]
    assert (done.returncode, ours) == (0, []), done.stderr
