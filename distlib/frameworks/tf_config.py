"""TF_CONFIG, checked before TensorFlow reads it: with a mistake in it TensorFlow waits, for ever and in silence.

    TF_CONFIG = {"cluster": {"chief":  ["10.0.0.1:2222"],                       the same on every machine
                             "worker": ["10.0.0.2:2222", "10.0.0.3:2222"],
                             "ps":     ["10.0.0.4:2222"]},
                 "task": {"type": "worker", "index": 1}}                        this machine: 10.0.0.3:2222

Source: https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROLES = ("chief", "worker", "ps", "evaluator")
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

    @property
    def is_chief(self) -> bool:
        """Whether this process does what only one may do, such as saving: the chief, else worker 0."""
        return (self.role, self.index) == ("chief" if "chief" in self.cluster else "worker", 0)


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
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f'TF_CONFIG should have addresses such as "10.0.0.2:2222" for {role}, got {address!r}')


def _check_repeats(tasks: Mapping[str, str]) -> None:
    """No two tasks may have the same address."""
    seen: dict[str, str] = {}
    for task, address in tasks.items():
        if address in seen:
            raise ValueError(
                f"TF_CONFIG names {address} twice, as {seen[address]} and as {task}: each task has its own"
            )
        seen[address] = task


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
