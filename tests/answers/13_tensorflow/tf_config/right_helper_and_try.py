# Right: a helper for the addresses, and int() for the port.
def check_address(address, others):
    try:
        host, port = address.split(":")
        if not host or set(host) & set(" \t\n/") or set(port) & set(" \t\n+_") or not 1 <= int(port) <= 65535:
            raise ValueError
    except ValueError:
        raise ValueError(f"an address is host:port, and this is {address}") from None
    if address in others:
        raise ValueError(f"two tasks at {address}")


def tf_config(hosts, role, index):
    taken, cluster = [], {}
    for name, addresses in hosts.items():
        if name not in ["chief", "worker", "ps", "evaluator"]:
            raise ValueError("no such role: " + name)
        for address in addresses:
            check_address(address, taken)
            taken.append(address)
        if name == "chief" and len(addresses) > 1:
            raise ValueError("two of the role chief")
        if addresses:
            cluster[name] = list(addresses)
    if role not in cluster:
        raise ValueError("nobody in the role " + role)
    if index < 0 or index >= len(cluster[role]):
        raise ValueError("no task has the index " + str(index))
    return json.dumps(dict(cluster=cluster, task=dict(type=role, index=index)))
