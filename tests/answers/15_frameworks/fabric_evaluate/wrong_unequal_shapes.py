# Wrong: gathers from each rank as many samples as it has. Loses all marks.
# Told: must have the same shape on all of them


def fabric_evaluate(fabric, model, loader):
    x, y = (tensor[fabric.global_rank :: fabric.world_size] for tensor in loader.dataset.tensors)
    with torch.no_grad():
        is_right = model(x).argmax(1) == y
    return fabric.all_gather(is_right.double()).mean().item()
