# Wrong: the ring sends the fewest bytes, so it is always taken. Loses all marks.
# Told: ring has 10 steps, whose latencies take 50 µs
def choose_algorithm(nbytes, cluster, algorithms):
    return "ring"
