# Right: one text names all that is wrong; a host may be IPv6 in brackets.
import ipaddress


def _mistakes(hosts, role, index):
    roles = "chief worker ps evaluator".split()
    yield from (f"role {each!r}" for each in list(hosts) + [role] if each not in roles)
    seen = []
    for addresses in hosts.values():
        for address in addresses:
            *host, port = address.rsplit(":", 1)
            good = bool(host) and bool(host[0]) and port != "" and all(c in "0123456789" for c in port)
            if good and ":" in host[0]:  # only an IPv6 address in brackets is a host with colons
                try:
                    good = host[0][0] == "[" and host[0][-1] == "]" and bool(ipaddress.IPv6Address(host[0][1:-1]))
                except ValueError:
                    good = False
            good = good and 0 < int(port) < 2**16 and "/" not in address
            if not good or any(c.isspace() for c in address):
                yield f"address {address!r}"
            if address in seen:
                yield f"shared address {address!r}"
            seen.append(address)
    if len(hosts.get("chief", [])) > 1:
        yield "more than one chief"
    number = len(hosts.get(role, []))
    if number == 0:
        yield f"nobody has the role {role!r}"
    elif index < 0 or index >= number:
        yield f"index {index} of {number} {role}"


def tf_config(hosts: Mapping[str, Sequence[str]], role: str, index: int) -> str:
    if mistakes := list(_mistakes(hosts, role, index)):
        raise ValueError("; ".join(mistakes))
    return json.dumps(
        dict(cluster={r: [*a] for r, a in hosts.items() if a}, task=dict(type=role, index=index)), separators=(",", ":")
    )
