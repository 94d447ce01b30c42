"""The cluster of docker/cluster.yaml: ranks on two nodes, of which one is cut off, comes back, and is killed."""

from __future__ import annotations

import functools
import json
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from distlib import SimulatedWorld
from tests.docker.conftest import docker
from tests.launch import elastic_training
from tests.launch.elastic_training import train
from tests.tools.launched import losses_in
from tests.tools.midst import wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]
PATIENCE = 400
WHERE = """
import socket, torch
from distlib import all_reduce

def main(comm):
    total = torch.ones(1)
    all_reduce(comm, total)
    print(comm.rank, socket.gethostname(), int(total))
"""

KILL_THE_CAPSTONE = """
import os, pathlib
for each in pathlib.Path("/proc").glob("[0-9]*"):
    if int(each.name) != os.getpid() and b"distlib.capstone" in (each / "cmdline").read_bytes():
        os.kill(int(each.name), 9)
"""


class Cluster:
    """A head and two nodes.

    Attributes:
        name: of the project; all networks begin with it.
    """

    def __init__(self, root: Path, folder: Path, image: str) -> None:
        self.name = f"distlib-test-{secrets.token_hex(4)}"
        override = folder / "images.yaml"
        services = {name: {"image": image} for name in ("head", "node")}
        override.write_text(json.dumps({"version": "3.9", "services": services}))
        self._command = [*compose_command(), "-p", self.name, "-f", str(root / "docker" / "cluster.yaml")]
        self._command += ["-f", str(override)]

    def compose(self, *words: str) -> str:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        environment = {**os.environ, "PORT": port, "COMPOSE_HTTP_TIMEOUT": "300"}
        done = subprocess.run(
            [*self._command, *words], capture_output=True, text=True, env=environment, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @functools.cached_property
    def head(self) -> str:
        """The number of the head's container."""
        return self.compose("ps", "--quiet", "head").strip()

    def nodes(self) -> set[str]:
        """The names of the nodes, which are the beginnings of their containers' numbers."""
        return {number[:12] for number in self.compose("ps", "--quiet", "node").split()}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`on-nodes` in a terminal of the head."""
        ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(["docker", "exec", self.head, "on-nodes", *words], text=True, **ends)

    def run(self, *words: str) -> list[str]:
        """The lines that it prints."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, ""), out + err
        return sorted(out.splitlines())


def compose_command() -> list[str]:
    """Compose, version 2 where there is one. Skips the test where there is none."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        pytest.skip("needs Docker Compose")
    return ["docker-compose"]


@pytest.fixture(scope="module")
def cluster(root: Path, tmp_path_factory: pytest.TempPathFactory, lab_image: str) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    made = Cluster(root, folder, lab_image)
    try:
        made.compose("up", "--detach", "--no-build", "--scale", "node=2")
        (folder / "where.py").write_text(WHERE)
        for script in (folder / "where.py", Path(elastic_training.__file__)):
            docker("cp", str(script), f"{made.head}:/course/work/{script.name}")
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "1")


def test_only_the_head_is_published_and_only_to_this_machine(cluster: Cluster) -> None:
    assert all(line.split(" -> ")[1].startswith("127.0.0.1:") for line in docker("port", cluster.head).splitlines())
    assert [docker("port", node) for node in cluster.nodes()] == ["", ""]
    assert docker("network", "inspect", "--format", "{{.Internal}}", f"{cluster.name}_private") == "true"


def test_ranks_run_on_all_nodes(cluster: Cluster) -> None:
    lines = cluster.run("torchrun", "--nproc-per-node", "2", "-m", "distlib.cli", "launch", "work/where.py:main")
    told = [line.split() for line in lines]  # [4c1d0fb7aa21] [rank 3] 3 4c1d0fb7aa21 4
    assert sorted(words[3] for words in told) == ["0", "1", "2", "3"]
    assert {words[5] for words in told} == {"4"}
    assert all(words[0] == f"[{words[4]}]" for words in told)
    assert {words[4] for words in told} == cluster.nodes() == {line.split()[-1] for line in cluster.run("hostname")}


def test_the_capstone_goes_on_when_it_was_killed(cluster: Cluster) -> None:
    """The command of lesson 19 on two nodes: all processes of one are killed, far from the end, then it goes on."""
    small = "--every 50 --features 16 --layers 2 --batch-size 16 --checkpoints".split()
    training = ("torchrun", "--nproc-per-node", "2", "-m", "distlib.capstone", "additions", "--way", "zero", *small)
    process = cluster.start(*training, "/course/work/kept", "--steps", "1000000")
    # Then every rank has one.
    wait_until(lambda: len(kept_steps(cluster, 3)) >= 2, "rank 3 keeps two", PATIENCE, during=process, every=0.1)
    docker("exec", sorted(cluster.nodes())[0], "python", "-c", KILL_THE_CAPSTONE)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0

    last = min(kept_steps(cluster, rank)[-1] for rank in range(4))
    steps = ("--steps", str(last + 100))
    undisturbed = cluster.run(*training, "/course/work/undisturbed", *steps)
    again = cluster.run(*training, "/course/work/kept", *steps)
    losses, found = (losses_in("\n".join(lines)) for lines in (undisturbed, again))
    assert any(line.endswith(f"goes on after step {last}") for line in again), again
    assert list(losses) == list(range(50, last + 101, 50))
    assert list(found) == [last + 50, last + 100] and found.items() <= losses.items()


def kept_steps(cluster: Cluster, rank: int) -> list[int]:
    """The steps of which a rank has checkpoints, in order."""
    listed = docker("exec", cluster.head, "sh", "-c", f"ls /course/work/kept/rank-{rank}-of-4 || true")
    return sorted(int(name.partition(".")[0]) for name in listed.split() if name.endswith(".checkpoint"))


@pytest.mark.parametrize("how", ["cut off", "killed"])
def test_it_goes_on_without_a_node(cluster: Cluster, tmp_path: Path, how: str) -> None:
    """From the last checkpoint, on the one that is left, whether it held rank 0 or rank 1."""
    folder = f"/course/work/{how.replace(' ', '-')}"
    words = ("torchrun", "--nnodes", "1:2", "--max-restarts", "3", "-m", "distlib.cli", "launch")
    process = cluster.start(*words, "work/elastic_training.py:lose_a_node", folder)
    wait_for_both(cluster, folder, process)
    lost = sorted(cluster.nodes())[0]
    network = f"{cluster.name}_private"
    docker(*(("network", "disconnect", network, lost) if how == "cut off" else ("kill", lost)))
    out, err = process.communicate(timeout=PATIENCE)
    last = SimulatedWorld(1).run(train, str(tmp_path), 12)[0][-1][1]
    assert f"[rank 0] 1 5 {last:.12f}\n" in out, out + err
    assert (process.returncode, err) == (0, f"on-nodes: node {lost} is gone.\n")
    if how == "cut off":
        docker("network", "connect", "--alias", "node", network, lost)
        assert {line.split()[-1] for line in cluster.run("hostname")} == cluster.nodes()


def wait_for_both(cluster: Cluster, folder: str, process: subprocess.Popen[str]) -> None:
    """Until two ranks are in the step in which they wait."""
    count = ("exec", cluster.head, "sh", "-c", f"ls -d {folder}/there-* | wc -l")
    wait_until(lambda: docker(*count) == "2", "two ranks are there", PATIENCE, during=process, every=0.5)
