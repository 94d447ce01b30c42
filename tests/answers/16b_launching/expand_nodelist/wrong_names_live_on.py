# Wrong: the list of names is made once, as a default argument. Loses all marks.
# Told: right on its own, but not after other calls
def expand_nodelist(text, names=[]):
    for group in re.split(r",(?![^\[]*\])", text):
        pieces = re.split(r"\[([^\[\]]*)\]", group)
        if not group or re.search(r"[\[\]]", "".join(pieces[::2])):
            raise ValueError(f"a name or a bracket is missing in {group!r}")
        choices = [numbers_of(piece, group) if k % 2 else [piece] for k, piece in enumerate(pieces)]
        names += ["".join(parts) for parts in itertools.product(*choices)]
    return names


def numbers_of(ranges, group):
    numbers = []
    for part in ranges.split(","):
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{part!r} is wrong in {group!r}")
        first, last = match[1], match[2] or match[1]
        numbers += [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return numbers
