# Wrong: two digits as soon as there are more than nine microbatches, "0F03". Loses the hidden marks.
# Told: without spaces or leading zeros
def one_forward_one_backward(num_stages, num_microbatches):
    width = len(str(num_microbatches - 1))
    rows = []
    for s in range(num_stages):
        w = min(num_microbatches, num_stages - s)
        row = [f"{s}F{i:0{width}}" for i in range(w)]
        for i in range(num_microbatches):
            row.append(f"{s}B{i:0{width}}")
            if i + w < num_microbatches:
                row.append(f"{s}F{i + w:0{width}}")
        rows.append(row)
    return rows
