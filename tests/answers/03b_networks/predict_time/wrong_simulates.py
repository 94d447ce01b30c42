# Wrong: simulates the library's all-reduce instead of predicting. Loses all marks.
# Told: a function of the library
# Told by the judge: found 0 s
from distlib import SimulatedWorld, all_reduce


def predict_time(algorithm, nbytes, cluster):
    world = SimulatedWorld(cluster.world_size, cluster)
    world.run(lambda comm: all_reduce(comm, torch.empty(nbytes, dtype=torch.uint8, device="meta"), algorithm=algorithm))
    return world.elapsed
