# Wrong: rank 0 does the work, and tells the others. Loses all marks.
# Told: rank 0 does more than its share


def fabric_evaluate(fabric, model, loader):
    recognized = torch.zeros((), dtype=torch.float64)
    if fabric.is_global_zero:
        with torch.no_grad():
            recognized += sum((model(inputs).argmax(1) == labels).sum() for inputs, labels in loader)
    return fabric.all_reduce(recognized, reduce_op="sum").item() / len(loader.dataset)
