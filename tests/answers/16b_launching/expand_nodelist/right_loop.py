# Right: goes through the text, one character at a time.
def expand_nodelist(text):
    names = []
    for group in groups_in(text):
        choices = [""]
        for piece in pieces_of(group):
            choices = [name + part for name in choices for part in piece]
        names.extend(choices)
    return names


def groups_in(text):
    group, depth = "", 0
    for character in text + ",":
        if character == "," and depth <= 0:
            yield group
            group, depth = "", 0
            continue
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        group += character
    if group:
        yield group[:-1]


def pieces_of(group):
    pieces, rest = [], group
    if not group:
        raise ValueError("a name is missing in the list: there is nothing between two commas")
    while rest:
        fixed, opening, rest = rest.partition("[")
        if "]" in fixed or (opening and "]" not in rest):
            raise ValueError(f"a bracket without a partner in {group}")
        pieces.append([fixed])
        if opening:
            inside, _, rest = rest.partition("]")
            pieces.append(numbers_of(inside, group))
    return pieces


def numbers_of(inside, group):
    numbers = []
    for part in inside.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            last = first
        if not all(each and set(each) <= set("0123456789") for each in (first, last)):
            raise ValueError(f"what is {part!r} in {group}?")
        low, high = int(first), int(last)
        if low > high:
            raise ValueError(f"{part} is no range in {group}")
        for number in range(low, high + 1):
            numbers.append(str(number).zfill(len(first)))
    return numbers
