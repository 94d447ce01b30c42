# Wrong: reads the first three parts of a bracket. Loses the hidden marks.
# Told: some names are wrong, or come in another order.
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
            for part in piece.split(",")[:3]:
                found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
                if not found:
                    raise ValueError(f"wrong: {group!r}")
                low, high = found[1], found[2]
                if high is None:
                    numbers.append(low)
                elif int(high) < int(low):
                    raise ValueError(f"wrong: {group!r}")
                else:
                    numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
            choices.append(numbers)
        names += ["".join(c) for c in itertools.product(*choices)]
    return names
