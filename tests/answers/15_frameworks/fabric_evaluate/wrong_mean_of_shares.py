# Wrong: averages the shares of ranks that have different numbers of samples. Loses all marks.
# Told: this is the mean of the ranks' shares


def fabric_evaluate(fabric, model, loader):
    x, y = (tensor[fabric.global_rank :: fabric.world_size] for tensor in loader.dataset.tensors)
    with torch.no_grad():
        is_right = model(x).argmax(1) == y
    return fabric.all_reduce(is_right.double().mean()).item()
