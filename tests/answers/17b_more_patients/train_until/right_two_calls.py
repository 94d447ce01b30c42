# Right: the mean of all losses decides, on every rank.
def train_until(comm, weight, samples, rate, target):
    for step in range(50):
        loss = (samples - weight).square().mean()
        all_reduce(comm, loss)
        if loss / comm.world_size <= target:
            return step
        gradient = (weight - samples).mean(0)
        all_reduce(comm, gradient)
        weight -= rate * gradient / comm.world_size
    return 50
