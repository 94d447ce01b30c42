# Right: a generator of complaints; the first one is raised.
import re


def complaints(hosts, role, index):
    for name in [*hosts, role]:
        if name not in {"chief", "worker", "ps", "evaluator"}:
            yield f"what is a {name!r}?"
    seen = set()
    for address in sum(hosts.values(), []):
        if not re.fullmatch(r"[^:/\s]+:\d+", address) or int(address.split(":")[1]) not in range(1, 1 << 16):
            yield f"{address!r} is no address"
        if address in seen:
            yield f"{address!r} belongs to two"
        seen.add(address)
    if len(hosts.get("chief", [])) > 1:
        yield "one chief is enough"
    if not hosts.get(role):
        yield f"there is no {role!r}"
    if index not in range(len(hosts.get(role, []))):
        yield f"there is no {role} {index}"


def tf_config(hosts, role, index):
    for complaint in complaints(hosts, role, index):
        raise ValueError(complaint)
    task = {"index": index, "type": role}
    return json.dumps({"task": task, "cluster": {name: hosts[name] for name in hosts if hosts[name]}}, indent=2)
