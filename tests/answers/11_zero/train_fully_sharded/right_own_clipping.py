# Right: no mesh, sums the squares of its rows and asks the others for theirs, takes the steps of SGD itself
def train_fully_sharded(model, steps, rate, max_norm):
    for part in [*model.blocks, model]:
        fully_shard(part)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    norms = []
    for *earlier, last in steps:
        count = len(earlier) + 1
        model.set_requires_gradient_sync(False)
        for inputs, targets in earlier:
            (torch.nn.functional.mse_loss(model(inputs), targets) / count).backward()
        model.set_requires_gradient_sync(True)
        (torch.nn.functional.mse_loss(model(last[0]), last[1]) / count).backward()
        rows = [parameter.grad.to_local() for parameter in trained]
        squares = torch.stack([each.double().square().sum() for each in rows]).sum()
        dist.all_reduce(squares)
        norms.append(squares.sqrt().item())
        factor = min(1.0, max_norm / (norms[-1] + 1e-6))
        for parameter in trained:
            parameter.to_local().data.sub_(rate * factor * parameter.grad.to_local())
            parameter.grad = None
    return norms
