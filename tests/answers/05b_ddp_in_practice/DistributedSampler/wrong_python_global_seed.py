# Wrong: seeds Python's global random. Loses all marks.
# Told: those of random
import random


class DistributedSampler:
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        self.r, self.n, self.size = comm.rank, comm.world_size, len(dataset)
        self.shuffle, self.seed, self.drop, self.epoch = shuffle, seed, drop_last, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.size // self.n if self.drop else -(-self.size // self.n)

    def __iter__(self):
        order = list(range(self.size))
        if self.shuffle:
            random.seed(self.seed * 10007 + self.epoch)
            random.shuffle(order)
        return iter([order[(self.r + k * self.n) % self.size] for k in range(len(self))])
