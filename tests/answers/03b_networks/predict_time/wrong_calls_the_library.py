# Wrong: calls the library's own formula. Loses all marks.
# Told: it calls distlib.network.choice.all_reduce_seconds, a function of the library
# Told by the judge: a library function does the work
from distlib.network import all_reduce_seconds


def predict_time(algorithm, nbytes, cluster):
    return all_reduce_seconds(algorithm, cluster, nbytes, 1)
