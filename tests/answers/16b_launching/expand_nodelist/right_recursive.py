# Right: writes the first bracket of a group out, and calls itself on what remains.
import re


def expand_nodelist(text):
    names, start, depth = [], 0, 0
    for end, character in enumerate(text + ","):
        depth = max(0, depth + (character == "[") - (character == "]"))
        if character == "," and (depth == 0 or end == len(text)):
            names += one_group(text[start:end], text[start:end])
            start = end + 1
    return names


def one_group(rest, group):
    match = re.match(r"([^\[\]]*)\[([^\[\]]*)\]", rest)
    if match is None:
        if not group or "[" in rest or "]" in rest:
            raise ValueError(f"not a group: {group!r}")
        return [rest]
    tails = one_group(rest[match.end() :], group)
    return [match[1] + number + tail for number in numbers(match[2], group) for tail in tails]


def numbers(ranges, group):
    if not ranges:
        raise ValueError(f"nothing in the brackets of {group!r}")
    head, comma, others = ranges.partition(",")
    match = re.match(r"^([0-9]+)(-([0-9]+))?$", head)
    if not match or int(match[3] or match[1]) < int(match[1]) or (comma and not others):
        raise ValueError(f"not a range: {head!r} in {group!r}")
    here = [f"{n:0>{len(match[1])}}" for n in range(int(match[1]), int(match[3] or match[1]) + 1)]
    return here + (numbers(others, group) if others else [])
