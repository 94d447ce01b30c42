# Wrong: a loop that never ends with more than one rank. Loses all marks.
# Told: it did not finish in time
def predict_time(algorithm, nbytes, cluster):
    seconds, distance = 0.0, 1
    while distance < cluster.world_size:
        seconds += cluster.intra.latency
    return seconds
