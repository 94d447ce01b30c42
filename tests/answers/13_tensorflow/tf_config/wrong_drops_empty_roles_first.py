# Wrong: leaves out empty roles before it looks at the names of roles. Loses the hidden marks.
# Told: is not a role of TensorFlow's
def tf_config(hosts, role, index):
    import re

    roles = ("chief", "worker", "ps", "evaluator")
    seen = set()
    hosts = {r: list(a) for r, a in hosts.items() if a}
    for r, addresses in hosts.items():
        if r not in roles:
            raise ValueError(r)
        for a in addresses:
            m = re.fullmatch(r"[^\s/:]+:([0-9]+)", a)
            if not m or not 1 <= int(m[1]) <= 65535 or a in seen:
                raise ValueError(a)
            seen.add(a)
    if role not in roles or not hosts.get(role):
        raise ValueError(role)
    if len(hosts.get("chief", [])) > 1:
        raise ValueError("chief")
    if not 0 <= index < len(hosts[role]):
        raise ValueError(str(index))
    return json.dumps({"cluster": hosts, "task": {"type": role, "index": index}})
