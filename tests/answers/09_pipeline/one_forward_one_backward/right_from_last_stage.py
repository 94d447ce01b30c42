# Right: from the last stage on, each row is that of the stage after it with one forward pass moved to the front.
def one_forward_one_backward(num_stages: int, num_microbatches: int) -> list[list[str]]:
    pattern = ["F", "B"] * num_microbatches
    patterns = [pattern]
    for _ in range(num_stages - 1):
        pattern = ["F", *pattern]  # one forward pass more in front ...
        last = len(pattern) - 1 - pattern[::-1].index("F")
        pattern = pattern[:last] + pattern[last + 1 :]  # ... and one less at the end
        patterns.insert(0, pattern)
    rows = []
    for s, kinds in enumerate(patterns):
        counts = {"F": iter(range(num_microbatches)), "B": iter(range(num_microbatches))}
        rows.append([f"{s}{kind}{next(counts[kind])}" for kind in kinds])
    return rows
