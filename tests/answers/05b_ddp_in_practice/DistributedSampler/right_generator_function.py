# Right: yields one index after the other; another way to mix seed and epoch; prints.
class DistributedSampler(torch.utils.data.Sampler):
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        self.comm, self.dataset = comm, dataset
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.set_epoch(0)
        if comm.rank == 0:
            print(f"{len(dataset)} samples")

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        size = self.comm.world_size
        return (len(self.dataset) if self.drop_last else len(self.dataset) + size - 1) // size

    def __iter__(self):
        order = torch.arange(len(self.dataset))
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(1_000_003 * self.seed + self.epoch)
            order = order[torch.randperm(len(order), generator=generator)]
        for number in range(len(self)):
            yield int(order[(number * self.comm.world_size + self.comm.rank) % len(order)])
