# Wrong: takes the mean of a rank's samples, which may be none. Loses the hidden marks.
# Told: a rank may have no samples


def fabric_evaluate(fabric, model, loader):
    x, y = (tensor[fabric.global_rank :: fabric.world_size] for tensor in loader.dataset.tensors)
    with torch.no_grad():
        is_right = model(x).argmax(1) == y
    share = is_right.double().mean() * len(is_right) / len(loader.dataset)
    return fabric.all_reduce(share, reduce_op="sum").item()
