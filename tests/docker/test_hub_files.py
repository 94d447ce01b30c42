"""What can be said about docker/hub/ without a Docker service: the list of passwords, and what Compose is asked for."""

from __future__ import annotations

import io
import ipaddress
import itertools
import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml


@pytest.fixture
def admission(root: Path, tmp_path: Path) -> SimpleNamespace:
    """docker/hub/admission.py, with an empty list."""
    names = runpy.run_path(str(root / "docker" / "hub" / "admission.py"))
    for function in names.values():
        if callable(function) and getattr(function, "__defaults__", None) == (names["LIST"],):
            function.__defaults__ = (tmp_path / "passwords.json",)
    return SimpleNamespace(**names, path=tmp_path / "passwords.json")


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "docker" / "hub" / "compose.yaml").read_text())


# ── passwords ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_password_is_right_for_its_name_only(admission: SimpleNamespace) -> None:
    passwords = admission.admit(["ada", "bob"])
    assert admission.is_right("ada", passwords["ada"]) and admission.is_right("bob", passwords["bob"])
    assert not admission.is_right("ada", passwords["bob"]) and not admission.is_right("eve", passwords["ada"])
    assert not admission.is_right("ada", "") and not admission.is_right("eve", "") and not admission.is_right("", "")


def test_a_new_password_replaces_the_old_one(admission: SimpleNamespace) -> None:
    old = admission.admit(["ada"])["ada"]
    new = admission.admit(["ada"])["ada"]
    assert old != new and re.fullmatch(r"(\w{4}-){3}\w{4}", new)
    assert admission.is_right("ada", new) and not admission.is_right("ada", old)


def test_the_list_has_no_password_and_is_for_its_owner(admission: SimpleNamespace) -> None:
    password = admission.admit(["ada"])["ada"]
    assert password not in admission.path.read_text() and list(json.loads(admission.path.read_text())) == ["ada"]
    assert admission.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["", "Ada", "a+b", "../eve", "a/b", ".", "-a", "a--b", "é", "a b", "a" * 33, "a\n"])
def test_names_that_would_lead_elsewhere_are_refused(admission: SimpleNamespace, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        admission.admit(["ada", name])
    assert admission.read_list() == {}


def test_the_command(
    admission: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("ada\nbob\n"))
    run: Callable[..., int] = admission.main
    assert run([]) == 0
    printed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert all(admission.is_right(name, password) for name, password in printed.items()) and len(printed) == 2
    assert run(["--remove", "ada"]) == 0 and run(["--list"]) == 0
    assert capsys.readouterr().out == "bob\n"
    assert run(["Ada Lovelace"]) == 1 and "not a name: 'Ada Lovelace'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["20260012", "4ever", "a", "ada-2_b"])
def test_numbers_of_students_are_names(admission: SimpleNamespace, name: str) -> None:
    assert admission.is_right(name, admission.admit([name])[name])


# ── networks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class FakeDocker:
    """Docker's networks, as its client tells of them."""

    def __init__(self, *taken: str) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        for subnet in taken:
            self.create_network(subnet, ipam={"Config": [{"Subnet": subnet}]}, labels={})

    def networks(self, names: list[str] | None = None, filters: dict[str, str] | None = None) -> list[dict[str, Any]]:
        label = (filters or {}).get("label")
        return [
            network
            for network in self.made.values()
            if (names is None or re.fullmatch(names[0], network["Name"]))
            and (label is None or label in network["Labels"])
        ]

    def create_network(self, name: str, ipam: dict[str, Any], labels: dict[str, str], **_: object) -> None:
        self.made[name] = {"Name": name, "Id": name, "IPAM": ipam, "Labels": labels, "Containers": {}}

    def inspect_network(self, name: str) -> dict[str, Any]:
        return self.made[name]

    def connect_container_to_network(self, container: str, name: str, aliases: list[str]) -> None:
        assert aliases == ["hub"] and container not in self.made[name]["Containers"]
        self.made[name]["Containers"][container] = {}

    def disconnect_container_from_network(self, container: str, name: str, force: bool) -> None:
        del self.made[name]["Containers"][container]

    def remove_network(self, name: str) -> None:
        assert not self.made[name]["Containers"]
        del self.made[name]


@pytest.fixture
def networks(root: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """docker/hub/networks.py, and in place of docker's package what it needs of it."""
    types = ModuleType("docker.types")
    vars(types).update(
        IPAMConfig=lambda pool_configs: {"Config": pool_configs}, IPAMPool=lambda subnet: {"Subnet": subnet}
    )
    errors = ModuleType("docker.errors")
    vars(errors).update(APIError=OSError)
    for module in (ModuleType("docker"), types, errors):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return SimpleNamespace(**runpy.run_path(str(root / "docker" / "hub" / "networks.py")))


def test_each_user_has_a_network_with_the_hub_alone(networks: SimpleNamespace) -> None:
    docker = FakeDocker("172.17.0.0/16", "10.213.0.0/27")
    users = [f"s{number}" for number in range(100)]
    names = [networks.join(docker, "ml", user, "hub1") for user in (*users, "s0")]
    assert names == [*(f"ml.{user}" for user in users), "ml.s0"]
    subnets = [ipaddress.ip_network(docker.made[name]["IPAM"]["Config"][0]["Subnet"]) for name in docker.made]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(subnets, 2))
    assert all(docker.made[f"ml.{user}"]["Containers"] == {"hub1": {}} for user in users)
    networks.leave(docker, "ml", "s1", "hub1")
    networks.leave(docker, "ml", "nobody", "hub1")
    assert "ml.s1" not in docker.made and len(docker.made) == 2 + 99


def test_a_hub_that_was_made_anew_comes_into_all_networks_of_its_class(networks: SimpleNamespace) -> None:
    docker = FakeDocker()
    for group, user in (("ml", "ada"), ("ml", "bob"), ("other", "eve")):
        networks.join(docker, group, user, "hub1")
    networks.rejoin(docker, "ml", "hub2")
    assert [list(network["Containers"]) for network in docker.made.values()] == [["hub1", "hub2"]] * 2 + [["hub1"]]


def test_the_hub_has_no_network_for_all(root: Path) -> None:
    config = (root / "docker" / "hub" / "jupyterhub_config.py").read_text()
    assert "spawner.network_name = networks.join(" in config and "DockerSpawner.network_name" not in config


# ── Compose ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_this_machine_reaches_the_hub(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:${PORT:-8000}:8000"]


def test_only_the_hub_gets_dockers_socket(compose: dict[str, Any]) -> None:
    services = compose["services"].items()
    assert [name for name, service in services if "docker.sock" in str(service)] == ["hub"]


def test_its_images_are_targets_with_arguments_that_exist(compose: dict[str, Any], root: Path) -> None:
    dockerfile = (root / "docker" / "Dockerfile").read_text()
    for name, service in compose["services"].items():
        assert service["image"] == "${IMAGES:-distlib}-" + name == "${IMAGES:-distlib}-" + service["build"]["target"]
        assert f" AS {name}\n" in dockerfile
        assert all(f"ARG {argument}" in dockerfile for argument in service["build"]["args"])


def test_settings_are_explained_and_have_no_password(compose: dict[str, Any], root: Path) -> None:
    example = (root / "docker" / "hub" / "example.env").read_text()
    settings = dict(line.split("=") for line in example.splitlines() if line and not line.startswith("#"))
    assert settings.keys() == {"INSTRUCTORS", "COMPOSE_PROJECT_NAME", "PORT", "MEMORY", "CORES", "IDLE"}
    asked = str(compose["services"]["hub"])
    assert all("${" + name in asked for name in settings)
    for ignored in (".gitignore", ".dockerignore"):
        assert re.search(r"^(/docker/hub|\*\*)/\.env$", (root / ignored).read_text(), re.MULTILINE)


def test_old_versions_of_compose_read_it(compose: dict[str, Any]) -> None:
    assert "name" not in compose
