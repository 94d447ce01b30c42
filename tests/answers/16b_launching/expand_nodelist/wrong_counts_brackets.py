# Wrong: counts brackets, and does not see that one stands inside of another. Loses the hidden marks.
# Told: there are brackets inside of brackets
import itertools
import re


def expand_nodelist(text):
    names = []
    for group in re.split(r",(?![^\[]*\])", text):
        if not group or group.count("[") != group.count("]"):
            raise ValueError(f"a name is missing, or a bracket: {group}")
        pieces = re.split(r"\[(.*?)\]", group)
        choices = [numbers_of(piece, group) if k % 2 else [piece] for k, piece in enumerate(pieces)]
        names += ["".join(parts) for parts in itertools.product(*choices)]
    return names


def numbers_of(piece, group):
    found = []
    for part in piece.split(","):
        numbers = re.findall("[0-9]+", part)
        if not numbers or int(numbers[-1]) < int(numbers[0]):
            raise ValueError(f"{part} is no range: {group}")
        found += [f"{n:0{len(numbers[0])}}" for n in range(int(numbers[0]), int(numbers[-1]) + 1)]
    return found
