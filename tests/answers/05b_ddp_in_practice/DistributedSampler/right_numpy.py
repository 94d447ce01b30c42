# Right: numpy's random numbers and indices.
import numpy as np


class DistributedSampler:
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        self.rank, self.world_size, self.length = comm.rank, comm.world_size, len(dataset)
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        full, rest = divmod(self.length, self.world_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self):
        order = np.arange(self.length)
        if self.shuffle:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(self.length)
        return iter(np.resize(order, len(self) * self.world_size)[self.rank :: self.world_size])
