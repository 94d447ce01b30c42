# Wrong: an all-reduce in disguise: every rank ends with the mean of all. Loses all marks.
# Told: this is the mean of all ranks
def gossip_average(comm, tensor, matrix, rounds):
    passed, total = tensor.clone(), tensor.clone()
    for _ in range(comm.world_size - 1):
        arrived = torch.empty_like(passed)
        comm.exchange(passed, (comm.rank + 1) % comm.world_size, arrived, (comm.rank - 1) % comm.world_size)
        total += arrived
        passed = arrived
    tensor.copy_(total / comm.world_size)
