# Wrong: a range gives at most a hundred names. Loses the hidden marks.
# Told: expand_nodelist('n[0998-1102]'): it returned a wrong value.
def expand_nodelist(text):
    names = []
    for group in re.split(r",(?![^\[\]]*\])", text):
        pieces = re.split(r"\[([^\[\]]*)\]", group)
        if not group or any("[" in p or "]" in p for p in pieces):
            raise ValueError(f"wrong: {group!r}")
        choices = []
        for k, piece in enumerate(pieces):
            if k % 2 == 0:
                choices.append([piece])
                continue
            numbers = []
            for part in piece.split(","):
                found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
                if not found:
                    raise ValueError(f"wrong: {group!r}")
                low, high = found[1], found[2]
                if high is None:
                    numbers.append(low)
                elif int(high) < int(low):
                    raise ValueError(f"wrong: {group!r}")
                else:
                    numbers += [str(n).zfill(len(low)) for n in range(int(low), min(int(high), int(low) + 99) + 1)]
            choices.append(numbers)
        names += ["".join(c) for c in itertools.product(*choices)]
    return names
