"""TF_CONFIG, checked before TensorFlow reads it: with a mistake in it TensorFlow waits, for ever and in silence.

    TF_CONFIG = {"cluster": {"chief":  ["10.0.0.1:2222"],                       the same on every machine
                             "worker": ["10.0.0.2:2222", "10.0.0.3:2222"],
                             "ps":     ["10.0.0.4:2222"]},
                 "task": {"type": "worker", "index": 1}}                        this machine: 10.0.0.3:2222

Source: https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROLES = ("chief", "worker", "ps", "evaluator")
LARGEST_PORT = 65535
_TASK = '{"type": "worker", "index": 0}'


@dataclass(frozen=True)
class TfConfig:
    """A TF_CONFIG without mistakes.

    Attributes:
        cluster: the addresses ("host:port") of each role, by role.
        role, index: which of them this process is.
    """

    cluster: dict[str, tuple[str, ...]]
    role: str
    index: int

    @property
    def address(self) -> str:
        """Where this process listens."""
        return self.cluster[self.role][self.index]


def parse_tf_config(config: str | Mapping[str, Any]) -> TfConfig:
    """Check a TF_CONFIG. config: the JSON text as it stands in the environment, or what it says.

    Raises:
        ValueError: what is wrong with it, and how it should look.
    """
    told = _read_json(config) if isinstance(config, str) else config
    if not isinstance(told, Mapping):
        raise ValueError(f'TF_CONFIG should be {{"cluster": …, "task": …}}, got {told!r}')
    cluster = _check_cluster(told.get("cluster"))
    role, index = _check_task(told.get("task"), cluster)
    return TfConfig(cluster, role, index)


def address_fault(address: object) -> str:
    """What keeps an address from being host:port, in words; empty if nothing does.

    A host is a name, an IPv4 address, or an IPv6 address in brackets: "[::1]:2222".
    """
    if not isinstance(address, str):
        return "it is not a text"
    if re.search(r"\s", address):
        return "there is a space or another blank in it"
    if "/" in address:
        return (
            f"it is a URL. Leave {address.partition('//')[0]}// out" if "://" in address else "there is a slash in it"
        )
    if "," in address:
        return "there is a comma in it. Each address is a text of its own"
    host, _, port = address.rpartition(":")
    if ":" not in address or not port or address.endswith("]"):
        return "its port is missing"
    return _host_fault(host) or _port_fault(port)


def _host_fault(host: str) -> str:
    if not host:
        return "its host is missing"
    if host[0] == "[" and host[-1] == "]":
        return (
            "" if _is_ipv6(host[1:-1]) else f"{host[1:-1]!r} is not an IPv6 address, and only these stand in brackets"
        )
    if ":" in host:
        return "there is more than one colon in it. An IPv6 address stands in brackets, such as [::1]:2222"
    strange = re.search(r"[^\w.-]", host)
    return f"{strange[0]!r} can't be part of a host's name" if strange else ""


def _is_ipv6(text: str) -> bool:
    try:
        return bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _port_fault(port: str) -> str:
    if not (port.isascii() and port.isdigit()):
        return f"its port {port!r} is not a number that is written in digits only"
    if int(port) == 0:
        return "port 0 means any free one, and nobody else would know which"
    return "" if int(port) <= LARGEST_PORT else f"its port is {int(port)}, and the largest there is is {LARGEST_PORT}"


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        hint = "; json.dumps writes it, str does not" if "'" in text else ""
        raise ValueError(f"TF_CONFIG is not JSON: {error}{hint}") from None


def _check_cluster(cluster: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(cluster, Mapping) or not cluster:
        text = f'TF_CONFIG should have a "cluster" of addresses by role, got {cluster!r}: '
        raise ValueError(f"{text}without one TensorFlow trains alone, in silence")
    for role, addresses in cluster.items():
        _check_role(role, addresses)
    if len(cluster.get("chief", ())) > 1:
        raise ValueError(f"TF_CONFIG names {len(cluster['chief'])} chiefs, {_listed(cluster['chief'])}: there is one")
    _check_repeats({f"{role} {index}": at for role, all_of in cluster.items() for index, at in enumerate(all_of)})
    return {role: tuple(addresses) for role, addresses in cluster.items()}


def _check_role(role: str, addresses: Any) -> None:
    if role not in ROLES:
        raise ValueError(f"TF_CONFIG has an unknown role {role!r} in its cluster: the roles are {_listed(ROLES)}")
    if not isinstance(addresses, list | tuple) or not addresses:
        raise ValueError(f"TF_CONFIG should have a list of addresses for {role}, got {addresses!r}")
    for address in addresses:
        if fault := address_fault(address):
            wanted = 'TF_CONFIG should have addresses such as "10.0.0.2:2222"'
            raise ValueError(f"{wanted} for {role}, got {address!r}: {fault}")


def _check_repeats(tasks: Mapping[str, str]) -> None:
    """No two tasks may have the same address, however it is written."""
    seen: dict[tuple[str, int], str] = {}
    for task, address in tasks.items():
        host, _, port = address.rpartition(":")
        parsed = host.lower(), int(port)
        if parsed in seen:
            raise ValueError(f"TF_CONFIG names {address} twice, as {seen[parsed]} and as {task}: each task has its own")
        seen[parsed] = task


def _check_task(task: Any, cluster: Mapping[str, tuple[str, ...]]) -> tuple[str, int]:
    if not isinstance(task, Mapping) or "type" not in task or "index" not in task:
        raise ValueError(f'TF_CONFIG should have a "task" such as {_TASK}, which says who reads it, got {task!r}')
    role, index = task["type"], task["index"]
    if role not in ROLES:
        raise ValueError(f"TF_CONFIG has an unknown role {role!r} in its task: the roles are {_listed(ROLES)}")
    if role not in cluster:
        raise ValueError(f"TF_CONFIG has the task {role} {index}, and only {_listed(cluster)} in its cluster")
    count = len(cluster[role])
    if isinstance(index, bool) or not isinstance(index, int):
        raise ValueError(f"TF_CONFIG should have a whole number as the index of its task, got {index!r}")
    if not 0 <= index < count:
        some = "1 address" if count == 1 else f"{count} addresses"
        there = f"only {some} of a {role}: the largest index is {count - 1}"
        raise ValueError(f"TF_CONFIG has the task {role} {index}, and its cluster has {there}")
    return role, index


def _listed(words: Any) -> str:
    return ", ".join(words)
