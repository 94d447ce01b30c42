# Wrong: a default argument lives on, and the second call returns the first one's rows, too. Loses all marks.
# Told: does a list live on from one call to the next
def gpipe(num_stages, num_microbatches, rows=[]):
    for s in range(num_stages):
        rows.append([f"{s}{k}{i}" for k in "FB" for i in range(num_microbatches)])
    return rows
