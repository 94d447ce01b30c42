"""What can be said about docker/ without a Docker service."""

from __future__ import annotations

import re
import runpy
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml


@pytest.fixture(scope="module")
def services(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "docker" / "compose.yaml").read_text())["services"]


def test_compose_publishes_only_to_this_machine(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 2 and all(port.startswith("127.0.0.1:") for port in ports)


def test_nodes_of_a_cluster_are_reached_by_nobody_else(root: Path) -> None:
    cluster = yaml.safe_load((root / "docker" / "cluster.yaml").read_text())
    node = cluster["services"]["node"]
    assert "ports" not in node and node["networks"] == ["private"] and cluster["networks"]["private"]["internal"]
    assert cluster["services"]["head"]["extends"] == {"file": "compose.yaml", "service": "lab"}


def test_compose_starts_one_of_them_unless_asked(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "profiles" not in service] == ["lab"]


def test_compose_names_arguments_and_targets_that_exist(services: dict[str, Any], root: Path) -> None:
    dockerfile = (root / "docker" / "Dockerfile").read_text()
    for service in services.values():
        assert f" AS {service['build']['target']}\n" in dockerfile
        assert all(f"ARG {name}" in dockerfile for name in service["build"]["args"])


def test_old_engines_can_build_it(root: Path) -> None:
    dockerfile = (root / "docker" / "Dockerfile").read_text()
    assert not [word for word in ("<<", "RUN --mount", "# syntax=") if word in dockerfile]


def test_packages_are_listed_and_left_out(root: Path) -> None:
    packages = runpy.run_path(str(root / "docker" / "list_packages.py"))["packages"]
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    everything, some = packages(settings, ""), packages(settings, "tensorflow|jax")
    project = settings["project"]
    needed = [*settings["build-system"]["requires"], *project["dependencies"]]
    assert everything[: len(needed)] == needed
    named = re.search(r"\[(.*)\]", project["optional-dependencies"]["course"][0])
    elsewhere = {"course", "dev", "site", "spy", "frameworks", "ray"}  # the last two have an environment of their own
    assert named and set(named[1].split(",")) == set(project["optional-dependencies"]) - elsewhere
    assert all(set(project["optional-dependencies"][name]) <= set(everything) for name in named[1].split(","))
    assert {package for package in everything if package.startswith(("tensorflow", "jax"))} == set(everything) - set(
        some
    )


@pytest.mark.parametrize(("answer", "prefix"), [(200, ""), (200, "/user/ada"), (500, "")])
def test_health_is_what_the_server_says(answer: int, prefix: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(answer)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.handle_request).start()
        monkeypatch.setenv("JUPYTER_PORT", str(server.server_port))
        monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", f"{prefix}/")
        if answer == 200:
            runpy.run_path(str(root / "docker" / "health.py"))
        else:
            with pytest.raises(HTTPError):
                runpy.run_path(str(root / "docker" / "health.py"))
    assert asked == [f"{prefix}/api"]
