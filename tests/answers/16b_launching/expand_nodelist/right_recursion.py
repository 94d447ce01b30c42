# Right: recursion; its message quotes what is left of the list.


def expand_nodelist(text: str) -> list[str]:
    def cut(rest, depth=0, at=0):
        while at < len(rest):
            if rest[at] == "," and depth == 0:
                return rest[:at], rest[at + 1 :]
            depth = max(depth + (rest[at] == "[") - (rest[at] == "]"), 0)
            at += 1
        return rest, None

    def numbers(inside):
        head, comma, tail = inside.partition(",")
        ends = head.split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise ValueError
        if int(ends[0]) > int(ends[-1]):
            raise ValueError
        mine = [str(n).rjust(len(ends[0]), "0") for n in range(int(ends[0]), int(ends[-1]) + 1)]
        return mine + (numbers(tail) if comma else [])

    def expand(part):
        before, opening, rest = part.partition("[")
        if "]" in before:
            raise ValueError
        if not opening:
            return [part]
        inside, closing, after = rest.partition("]")
        if not closing or "[" in inside:
            raise ValueError
        tails = expand(after)
        return [before + n + t for n in numbers(inside) for t in tails]

    group, rest = cut(text)
    try:
        if group == "":
            raise ValueError
        names = expand(group)
    except ValueError:
        raise ValueError(f"In {text}, this is wrong: {group}") from None
    return names if rest is None else names + expand_nodelist(rest)
