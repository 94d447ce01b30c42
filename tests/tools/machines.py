"""Several machines made of this one: network namespaces with host names and addresses of their own. Needs root.

     ┌── n0 10.77.0.1
hub ─┼── n1 10.77.0.2        they share the file system, as the nodes of a cluster share a home
     └── n2 10.77.0.3
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

_IP = "ip"


@functools.cache
def missing() -> str | None:
    """Why this can't be had here; None if it can."""
    absent = [name for name in (_IP, "nsenter", "unshare") if shutil.which(name) is None]
    if absent:
        return f"needs the commands {', '.join(absent)}"
    if os.getuid() != 0:
        return "needs root, for network namespaces"
    name = f"distlib{os.getpid()}"
    done = subprocess.run([_IP, "netns", "add", name], capture_output=True)
    subprocess.run([_IP, "netns", "delete", name], capture_output=True)
    return "this system forbids network namespaces" if done.returncode else None


class Machines:
    """Some machines on one network. A context manager; at its end they are gone, with all that runs on them.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self.names = [f"n{number}" for number in range(count)]
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]
        self._mark = f"d{os.getpid()}"

    def __enter__(self) -> Machines:
        hub = self._namespace("hub")
        self._do("netns", "add", hub)
        self._do("-n", hub, "link", "add", "hub", "type", "bridge")
        self._do("-n", hub, "link", "set", "hub", "up")
        for name, address in zip(self.names, self.addresses, strict=True):
            own = self._namespace(name)
            self._do("netns", "add", own)
            self._do("-n", hub, "link", "add", name, "type", "veth", "peer", "eth0", "netns", own)
            self._do("-n", hub, "link", "set", name, "master", "hub", "up")
            self._do("-n", own, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self._do("-n", own, "link", "set", device, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in [*self.names, "hub"]:
            for pid in subprocess.run(
                [_IP, "netns", "pids", self._namespace(name)], capture_output=True, text=True
            ).stdout.split():
                subprocess.run(["kill", "-9", pid], capture_output=True)
            subprocess.run([_IP, "netns", "delete", self._namespace(name)], capture_output=True)

    def start(
        self, machine: int, command: Sequence[str], variables: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command on a machine. `options`: of Popen."""
        name = self.names[machine]
        # ip netns exec would also mount a new /sys, in which slurmd misses the control groups.
        enter = ["nsenter", f"--net=/run/netns/{self._namespace(name)}", "unshare", "--uts", "sh", "-c"]
        words = [*enter, 'hostname "$0" && exec "$@"', name, *command]
        return subprocess.Popen(words, text=True, env={**os.environ, **(variables or {})}, **options)

    def processes(self, machine: int) -> list[str]:
        """The ids of what runs on a machine."""
        command = [_IP, "netns", "pids", self._namespace(self.names[machine])]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def cut_off(self, machine: int) -> None:
        """From now on nothing gets to a machine or away from it, and nobody is told."""
        self._do("-n", self._namespace("hub"), "link", "set", self.names[machine], "down")

    def _namespace(self, name: str) -> str:
        return f"{self._mark}{name}"

    def _do(self, *words: str) -> None:
        subprocess.run([_IP, *words], check=True, capture_output=True)
