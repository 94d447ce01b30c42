# Wrong: is torch's sampler. Loses all marks.
# Told: torch's DistributedSampler is not there
class DistributedSampler(torch.utils.data.DistributedSampler):
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        super().__init__(dataset, comm.world_size, comm.rank, shuffle, seed, drop_last)
