"""A class on a server, as docker/hub/compose.yaml starts it, and those who sign in, over HTTP as a browser does."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

PATIENCE = 300.0  # seconds, on a busy machine


def compose_command() -> list[str] | None:
    """How Compose is called here, version 2 or 1; None if there is none."""
    second = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=100).returncode == 0
    if second:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


class Hub:
    """The hub of a new class.

    Args:
        root: the project's folder.
        compose: the words that call Compose.
        images: what the names of the images begin with.
        instructors: their names.
    """

    def __init__(self, root: Path, compose: Sequence[str], images: str, instructors: Sequence[str]) -> None:
        self.name = f"distlib-test-{secrets.token_hex(4)}"
        self._compose = [*compose, "--file", str(root / "docker" / "hub" / "compose.yaml")]
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            port = door.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        settings = {"COMPOSE_PROJECT_NAME": self.name, "PORT": str(port), "IMAGES": images}
        self._settings = settings | {"INSTRUCTORS": " ".join(instructors), "MEMORY": "3G", "CORES": "2", "IDLE": "7200"}

    def compose(self, *words: str) -> str:
        """What a command of Compose prints. AssertionError if it fails."""
        return run([*self._compose, *words], self._settings)

    def up(self) -> None:
        """Start, and wait until it answers."""
        self.compose("up", "--no-build", "--detach")
        ends = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < ends, self.compose("logs", "hub")
            time.sleep(0.3)

    def admit(self, *names: str) -> dict[str, str]:
        """New passwords, by name."""
        lines = self.compose("exec", "-T", "hub", "admit", *names).splitlines()
        return dict(line.split("\t") for line in lines)

    def containers(self) -> list[str]:
        """The names of the class's containers that are running, without Compose's own."""
        words = ["docker", "ps", "--filter", f"name=^{self.name}[.]", "--format", "{{.Names}}"]
        return sorted(run(words).split())

    def volumes(self) -> set[str]:
        """The class's volumes."""
        return set(run(["docker", "volume", "ls", "--filter", f"name=^{self.name}", "--format", "{{.Name}}"]).split())

    def inside(self, member: str, *words: str) -> str:
        """What a command prints in a member's container, run by its user. AssertionError if it fails."""
        return run(["docker", "exec", f"{self.name}.{member}", *words])

    def fails(self, member: str, *words: str) -> bool:
        """Whether a command fails there."""
        command = ["docker", "exec", f"{self.name}.{member}", *words]
        return subprocess.run(command, capture_output=True, timeout=PATIENCE).returncode != 0

    def down(self) -> None:
        """Stop everything, as an instructor does."""
        self.compose("down")

    def remove(self) -> None:
        """Delete all of it, whatever has gone wrong."""
        for words in (["kill"], ["rm", "--force"]):
            subprocess.run([*self._compose, *words], env=os.environ | self._settings, timeout=PATIENCE)
        for name in self.containers():
            run(["docker", "rm", "--force", name])
        self.down()
        for name in self.volumes():
            run(["docker", "volume", "rm", name])

    def _answers(self) -> bool:
        try:
            return session().get(f"{self.address}/hub/health", timeout=10).status_code == 200
        except requests.RequestException:
            return False


class Member:
    """Somebody who signs in with a browser, which keeps cookies and sends them with a token of the page."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub, self._session, self.name = hub, session(), name
        self.home = f"{hub.address}/user/{name}"

    def sign_in(self, password: str) -> int:
        """The status of the answer. After the right password the hub begins to start a container."""
        page = f"{self._hub.address}/hub/login"
        self._session.get(page, timeout=PATIENCE).raise_for_status()
        form = {"username": self.name, "password": password, "_xsrf": self._token("/hub/")}
        return self._session.post(page, data=form, timeout=PATIENCE).status_code

    def open_lab(self) -> str:
        """The page of JupyterLab, once the container answers."""
        ends = time.monotonic() + PATIENCE
        while True:
            page = self._session.get(f"{self.home}/lab", timeout=PATIENCE)
            if page.status_code == 200 and page.url.startswith(self.home):
                return page.text
            assert time.monotonic() < ends, f"{page.status_code} {page.url}\n{self._hub.compose('logs', 'hub')}"
            time.sleep(0.5)

    def status_of(self, address: str) -> int:
        """What the server answers to this member about some address."""
        return self._session.get(f"{self._hub.address}{address}", timeout=PATIENCE).status_code

    def call(self, method: str, path: str, json: Any = None, **form: str) -> Any:
        """What the member's own server answers to JupyterLab. AssertionError if it refuses."""
        address, headers = f"{self.home}/{path}", {"X-XSRFToken": self._token(f"/user/{self.name}/")}
        done = self._session.request(method, address, json=json, data=form or None, headers=headers, timeout=PATIENCE)
        assert done.ok, f"{method} {address}: {done.status_code}\n{done.text[-2000:]}"
        return done.json() if done.text else None

    def assignments(self, what: str = "", **form: str) -> list[dict[str, Any]]:
        """nbgrader's list of assignments, as it is, or after a button in it: "fetch", "submit", "fetch_feedback"."""
        form = {"course_id": self._hub.name, **form}
        done = self.call("POST", f"assignments/{what}", **form) if what else self.call("GET", "assignments", **form)
        assert done["success"], done
        return done["value"]

    def _token(self, path: str) -> str:
        return next(
            cookie.value or "" for cookie in self._session.cookies if (cookie.name, cookie.path) == ("_xsrf", path)
        )


def session() -> requests.Session:
    """A browser without cookies, which asks no proxy."""
    made = requests.Session()
    made.trust_env = False
    return made


def run(words: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """What a command prints. AssertionError with its complaint if it fails."""
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=2 * PATIENCE, env={**os.environ, **(variables or {})}
    )
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()
