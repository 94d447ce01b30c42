# Wrong: calls the library's own function. Loses all marks.
# Told: it calls distlib.network.choice.choose_all_reduce, a function of the library
# Told by the judge: a library function does the work
from distlib import choose_all_reduce


def choose_algorithm(nbytes, cluster, algorithms):
    seconds = choose_all_reduce(cluster, nbytes, 1).seconds
    return min(algorithms, key=lambda algorithm: seconds[algorithm])
