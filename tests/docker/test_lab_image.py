"""The image of the course, built and run: who may reach JupyterLab, what stays, and what a student can't see."""

from __future__ import annotations

import re
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.docker.conftest import SECRET, docker
from tests.tools.midst import wait_until
from tests.tools.tiny_course import DOCUMENTS

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]

# As in docker/compose.yaml, but for the port, which Docker chooses.
OPTIONS = ("--hostname", "localhost", "--shm-size", "1g", "--cap-add", "SYS_PTRACE", "--publish", "127.0.0.1::8888")


@pytest.fixture(scope="module")
def volume() -> Iterator[str]:
    """A new volume for a student's work."""
    name = docker("volume", "create")
    yield name
    docker("volume", "rm", name)


@contextmanager
def started(image: str, volume: str) -> Iterator[str]:
    """A container with JupyterLab, from when it is healthy."""
    name = f"distlib-test-{secrets.token_hex(4)}"
    docker("run", "--detach", "--name", name, *OPTIONS, "--volume", f"{volume}:/course/work", image)
    try:
        wait_until_healthy(name)
        yield name
    finally:
        docker("rm", "--force", name)


@pytest.fixture(scope="module")
def lab(lab_image: str, volume: str) -> Iterator[str]:
    """A container that has found a file from an earlier one, see `test_work_stays`."""
    with started(lab_image, volume) as first:
        docker("exec", first, "sh", "-c", "echo mine > /course/work/note.txt")
    with started(lab_image, volume) as second:
        yield second


def wait_until_healthy(container: str, seconds: float = 240) -> None:
    """Wait for Docker's own check, which is docker/health.py."""
    look = ("inspect", "--format", "{{.State.Health.Status}}", container)
    wait_until(lambda: docker(*look) == "healthy", lambda: docker("logs", container), seconds, every=0.5)


def status(container: str, path: str) -> int:
    """What JupyterLab answers to somebody on this machine."""
    host = docker("port", container, "8888").splitlines()[0]
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return directly.open(f"http://{host}{path}", timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


def test_it_answers_with_the_token_and_not_without(lab: str) -> None:
    address = re.search(r"http://localhost:8888/lab/tree/\S+[?]token=(\w+)", docker("logs", lab))
    assert address, docker("logs", lab)
    assert status(lab, f"/api/contents?token={address[1]}") == 200
    assert status(lab, "/api/contents") == status(lab, "/api/contents?token=wrong") == 403


def test_only_this_machine_reaches_it(lab: str) -> None:
    assert docker("port", lab, "8888").startswith("127.0.0.1:")


def test_work_stays(lab: str) -> None:
    assert docker("exec", lab, "cat", "/course/work/note.txt") == "mine"
    assert "02_all_reduce" in docker("exec", lab, "ls", "/course/work/exercises")


def test_nobody_is_root_in_it(lab: str) -> None:
    assert docker("exec", lab, "id", "--user") == "1000"
    assert set(docker("exec", lab, "sh", "-c", "stat --format %u /proc/[0-9]*").split()) == {"1000"}


def test_it_has_what_students_need_and_no_more(lab: str) -> None:
    there = {name for name in docker("exec", lab, "ls", "-A", "/course").split() if not name.endswith(".egg-info")}
    assert there == {
        *DOCUMENTS,
        "AGENTS.md",
        "due_dates.json",
        "graded_with.txt",
        ".binder",
        "course",
        "distlib",
        "docker",
        "exercises",
        "work",
    }


def test_ranks_share_memory(lab: str) -> None:
    program = "from distlib.worlds.real.shared_memory import problem; print(problem())"
    assert docker("exec", lab, "python", "-c", program) == "None"


def test_pips_settings_are_not_in_it(lab_image: str) -> None:
    for words in (("history", "--no-trunc", lab_image), ("inspect", lab_image)):
        assert SECRET not in docker(*words)


def test_the_image_for_gpus_says_that_there_are_none(gpu_image: str) -> None:
    """It is built and starts here, and has no GPU to see."""
    printed = docker("run", "--rm", "--shm-size", "1g", gpu_image, "sh", "-c", "distlib doctor || true")
    assert re.search(r"GPUs +none; every lesson and exercise runs without one", printed), printed
    variables = docker("inspect", "--format", "{{.Config.Env}}", gpu_image)
    assert "NVIDIA_VISIBLE_DEVICES=all" in variables
