# Right: looks for all that is wrong first, and then counts up texts.
import re


def expand_nodelist(text):
    groups = re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+|(?<=,)(?=,|$)|^(?=,|$)", text)
    for group in groups:
        numbers = re.findall(r"\[([^\]]*)\]", group)
        if re.sub(r"\[[^\[\]]*\]", "", group) != re.sub(r"[\[\]]", "", re.sub(r"\[[^\[\]]*\]", "", group)) or not group:
            raise ValueError(f"wrong group {group}")
        for part in ",".join(numbers).split(",") if numbers else []:
            ends = [end for end in part.split("-")]
            if not re.match(r"\A[0-9]+(-[0-9]+)?\Z", part) or int(ends[0]) > int(ends[-1]):
                raise ValueError(f"wrong group {group}, because of {part}")
    return sum(map(write_out, groups), [])


def write_out(group):
    before, bracket, rest = group.partition("[")
    if bracket == "":
        return [group]
    inside, _, after = rest.partition("]")
    found = []
    for part in inside.split(","):
        first, _, last = part.partition("-")
        number = first
        while True:
            found += [before + number + end for end in write_out(after)]
            if int(number) >= int(last or first):
                break
            number = str(int(number) + 1).zfill(len(first))
    return found
