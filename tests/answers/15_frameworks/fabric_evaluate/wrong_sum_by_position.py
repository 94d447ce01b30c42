# Wrong: hands the operation over where all_reduce expects a group. Loses all marks.
# Told: handed over as reduce_op="sum"


def fabric_evaluate(fabric, model, loader):
    x, y = (tensor[fabric.global_rank :: fabric.world_size] for tensor in loader.dataset.tensors)
    with torch.no_grad():
        is_right = model(x).argmax(1) == y
    return fabric.all_reduce(is_right.sum().double(), "sum").item() / len(loader.dataset)
