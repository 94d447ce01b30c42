# Wrong: sorts backward passes as texts, "0B10" before "0B2", on every other stage. Loses the hidden marks.
# Told: stages take the microbatches in different orders
def gpipe(num_stages, num_microbatches):
    rows = []
    for s in range(num_stages):
        forward = [f"{s}F{i}" for i in range(num_microbatches)]
        backward = [f"{s}B{i}" for i in range(num_microbatches)]
        rows.append(forward + (sorted(backward) if s % 2 == 0 else backward))
    return rows
