# Wrong: rounds the share down, and leaves what remains to the last rank. Loses the hidden marks.
# Told: rank 3 does more than its share


def fabric_evaluate(fabric, model, loader):
    samples, ranks, rank = len(loader.dataset), fabric.world_size, fabric.global_rank
    first, last = samples // ranks * rank, samples // ranks * (rank + 1) if rank < ranks - 1 else samples
    x, y = (tensor[first:last] for tensor in loader.dataset.tensors)
    with torch.no_grad():
        recognized = (model(x).argmax(1) == y).sum().double()
    return fabric.all_reduce(recognized, reduce_op="sum").item() / samples
