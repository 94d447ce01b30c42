# Wrong: int() takes " 80", "+80" and "8_0" as ports: "written in digits only". Loses the hidden marks.
# Told: is not host:port
def tf_config(hosts, role, index):
    roles = ("chief", "worker", "ps", "evaluator")
    seen = set()
    for r, addresses in hosts.items():
        if r not in roles:
            raise ValueError(r)
        for a in addresses:
            parts = a.split(":")
            try:
                ok = len(parts) == 2 and parts[0] and not set(parts[0]) & set(" /") and 1 <= int(parts[1]) <= 65535
            except ValueError:
                ok = False
            if not ok or a in seen:
                raise ValueError(a)
            seen.add(a)
    if role not in roles or not hosts.get(role):
        raise ValueError(role)
    if len(hosts.get("chief", [])) > 1:
        raise ValueError("chief")
    if not 0 <= index < len(hosts[role]):
        raise ValueError(str(index))
    return json.dumps({"cluster": {r: list(a) for r, a in hosts.items() if a}, "task": {"type": role, "index": index}})
