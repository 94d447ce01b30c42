# Wrong: the warm-up ends at four, the most that the visible tests need. Loses the hidden marks.
# Told: the warm-up is too short
def one_forward_one_backward(num_stages, num_microbatches):
    rows = []
    for s in range(num_stages):
        w = min(num_microbatches, (4, 3, 2, 1)[max(0, 4 - num_stages + s)] if num_stages - s <= 4 else 4)
        row = [f"{s}F{i}" for i in range(w)]
        for i in range(num_microbatches):
            row.append(f"{s}B{i}")
            if i + w < num_microbatches:
                row.append(f"{s}F{i + w}")
        rows.append(row)
    return rows
