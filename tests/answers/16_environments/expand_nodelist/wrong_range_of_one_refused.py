# Wrong: refuses [3-3], a range of one number. Loses the hidden marks.
# Told: nothing is wrong here
import itertools
import re


def groups_of(text):
    groups, depth, now = [], 0, ""
    for c in text:
        if c == "," and depth == 0:
            groups.append(now)
            now = ""
            continue
        depth = depth + 1 if c == "[" else max(0, depth - 1) if c == "]" else depth
        now += c
    return groups + [now]


def numbers_of(inside, group):
    out = []
    for part in inside.split(","):
        m = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if not m:
            raise ValueError(f"bad group {group}")
        a, b = m[1], m[2] or m[1]
        if m[2] and int(b) <= int(a):
            raise ValueError(f"bad group {group}")
        out += [str(i).zfill(len(a)) for i in range(int(a), int(b) + 1)]
    return out


def expand_nodelist(text: str) -> list[str]:
    names = []
    for group in groups_of(text):
        if not re.fullmatch(r"(?:[^\[\]]|\[[^\[\]]*\])+", group):
            raise ValueError(f"bad group {group}")
        parts = re.split(r"\[([^\[\]]*)\]", group)
        choices = [[p] if i % 2 == 0 else numbers_of(p, group) for i, p in enumerate(parts)]
        names += ["".join(c) for c in itertools.product(*choices)]
    return names
