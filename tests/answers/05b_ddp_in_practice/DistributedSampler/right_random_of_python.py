# Right: shuffles with Python's generator, seeded by a text, and yields from a method.
import math
import random


class DistributedSampler:
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        self.__dict__.update(r=comm.rank, n=comm.world_size, size=len(dataset), shuffle=shuffle, seed=seed)
        self.count = math.floor(self.size / self.n) if drop_last else math.ceil(self.size / self.n)
        self.set_epoch(0)

    def set_epoch(self, epoch):
        self.key = f"{self.seed}/{epoch}"

    __len__ = lambda self: self.count  # noqa: E731

    def order(self):
        return random.Random(self.key).sample(range(self.size), self.size) if self.shuffle else range(self.size)

    def __iter__(self):
        order = self.order()
        for k in range(self.count):
            yield order[(self.r + k * self.n) % self.size]
