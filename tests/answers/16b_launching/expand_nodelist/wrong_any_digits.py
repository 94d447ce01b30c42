# Wrong: \d also takes other digits, such as ٣; "the digits 0 to 9 alone". Loses the hidden marks.
# Told: of the digits 0 to 9 alone
def expand_nodelist(text):
    names = []
    for group in re.split(r",(?![^\[\]]*\])", text):
        parts = re.split(r"\[([^\[\]]*)\]", group)
        if not group or any("[" in p or "]" in p for p in parts[::2]):
            raise ValueError(f"wrong: {group}")
        choices = []
        for i, p in enumerate(parts):
            found = [p] if i % 2 == 0 else []
            for r in p.split(",") if i % 2 else []:
                m = re.match(r"(\d+)(?:-(\d+))?$", r)
                if not m or m[2] and int(m[2]) < int(m[1]):
                    raise ValueError(f"wrong: {group}")
                found += [f"{k:0{len(m[1])}d}" for k in range(int(m[1]), int(m[2] or m[1]) + 1)]
            choices.append(found)
        names += map("".join, itertools.product(*choices))
    return names
