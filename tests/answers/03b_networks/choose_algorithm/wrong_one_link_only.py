# Wrong: takes all ranks to be on one node. Loses all marks.
# Told: on 32 ranks
from distlib import Cluster


def choose_algorithm(nbytes, cluster, algorithms):
    one_node = Cluster.flat(cluster.world_size, cluster.intra)
    return min(algorithms, key=lambda algorithm: predict_time(algorithm, nbytes, one_node))
