"""A network for each user of the hub: the user's container and the hub are in it, and nobody else.

    hub ──┬── CLASS.ada ── ada's container
          └── CLASS.bob ── bob's container       ada reaches no port of bob's

Docker's own choice of addresses ends after some thirty networks. So each gets 16 addresses of the range `ADDRESSES`.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Any

ADDRESSES = ipaddress.ip_network(os.environ.get("ADDRESSES", "10.213.0.0/16"))
PREFIX = 28
HUB = "hub"  # under this name a container finds the hub


def join(client: Any, group: str, user: str, hub: str) -> str:
    """Make the network of a user if it is not there, and have the hub in it. Returns the network's name.

    Args:
        client: docker's APIClient.
        group: the name of the class.
        hub: the id of the hub's own container.

    Raises:
        RuntimeError: all addresses are taken.
    """
    name = f"{group}.{user}"
    if not client.networks(names=[f"^{name}$"]):
        _make(client, group, name)
    connect(client, name, hub)
    return name


def connect(client: Any, name: str, hub: str) -> None:
    """Have the hub in a network, if it is not yet."""
    there = client.inspect_network(name).get("Containers") or {}
    if not any(container.startswith(hub) for container in there):
        client.connect_container_to_network(hub, name, aliases=[HUB])


def rejoin(client: Any, group: str, hub: str) -> None:
    """Have a hub that was made anew in the networks of containers that still run."""
    for network in client.networks(filters={"label": _label(group)}):
        connect(client, network["Name"], hub)


def leave(client: Any, group: str, user: str, hub: str) -> None:
    """Remove the network of a user whose container is gone."""
    name = f"{group}.{user}"
    for network in client.networks(names=[f"^{name}$"]):
        client.disconnect_container_from_network(hub, network["Id"], force=True)
        client.remove_network(network["Id"])


def _make(client: Any, group: str, name: str) -> None:
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    taken = [subnet for network in client.networks() for subnet in _subnets(network)]
    for subnet in ADDRESSES.subnets(new_prefix=PREFIX):
        if any(subnet.overlaps(other) for other in taken):
            continue
        addresses = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
        try:
            client.create_network(
                name, driver="bridge", ipam=addresses, labels={_label(group): ""}, check_duplicate=True
            )
        except APIError as error:
            if "overlap" in str(error):  # with a network of this machine that is not Docker's
                continue
            raise
        return
    raise RuntimeError(f"no network is left for {name} in {ADDRESSES}: name a larger range, ADDRESSES=10.208.0.0/12")


def _subnets(network: dict[str, Any]) -> list[ipaddress.IPv4Network]:
    """The ranges of IPv4 of a network, as Docker tells it."""
    told = [ipaddress.ip_network(pool["Subnet"]) for pool in network["IPAM"]["Config"] or [] if pool.get("Subnet")]
    return [subnet for subnet in told if isinstance(subnet, ipaddress.IPv4Network)]


def _label(group: str) -> str:
    return f"distlib.class.{group}"
