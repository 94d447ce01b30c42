# Right: regular expressions, and a product.
import itertools
import re


def expand_nodelist(text):
    names = []
    for group in re.split(r",(?![^\[]*\])", text):
        if not re.fullmatch(r"(?:[^\[\],]|\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\])+", group, re.ASCII):
            raise ValueError(f"{text}: can't read {group}")
        pieces = re.split(r"\[(.*?)\]", group)
        for k in range(1, len(pieces), 2):
            pieces[k] = [n for part in pieces[k].split(",") for n in between(part, f"{text}: {group} has {part}")]
        pieces[::2] = [[fixed] for fixed in pieces[::2]]
        names += map("".join, itertools.product(*pieces))
    return names


def between(part, complaint):
    first, *_ = ends = part.split("-")
    if int(ends[-1]) < int(first):
        raise ValueError(complaint)
    return [f"{n:0{len(first)}d}" for n in range(int(first), int(ends[-1]) + 1)]
