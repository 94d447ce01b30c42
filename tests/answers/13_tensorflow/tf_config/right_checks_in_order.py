# Right: one check after the other, then the text.
def tf_config(hosts, role, index):
    roles = ("chief", "worker", "ps", "evaluator")
    unknown = [name for name in (*hosts, role) if name not in roles]
    if unknown:
        raise ValueError(f"unknown role {unknown[0]}")
    addresses = [address for each in hosts.values() for address in each]
    for address in addresses:
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isdigit()):
            raise ValueError(f"not host:port: {address}")
        if not 1 <= int(port) <= 65535:
            raise ValueError(f"no such port: {address}")
        if "/" in host or ":" in host or host.split() != [host]:
            raise ValueError(f"not a host: {address}")
    twice = [address for address in addresses if addresses.count(address) > 1]
    if twice:
        raise ValueError(f"{twice[0]} is there twice")
    cluster = {name: list(each) for name, each in hosts.items() if each}
    if len(cluster.get("chief", ())) > 1:
        raise ValueError("more than one chief")
    if role not in cluster:
        raise ValueError(f"nobody is {role}")
    if not 0 <= index < len(cluster[role]):
        raise ValueError(f"{role} has no index {index}")
    print("all is well")
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
