# Wrong: cuts first, and shuffles each part by itself. Loses all marks.
# Told: shuffle the whole data set first
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
        order = list(range(self.length))
        total = len(self) * self.world_size
        while len(order) < total:
            order += order[: total - len(order)]
        mine = order[self.rank : total : self.world_size]
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            mine = [mine[place] for place in torch.randperm(len(mine), generator=generator)]
        return iter(mine)
