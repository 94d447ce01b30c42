"""What can be said about docker/hub/ without a Docker service: the list of passwords, and what Compose is asked for."""

from __future__ import annotations

import io
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
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
