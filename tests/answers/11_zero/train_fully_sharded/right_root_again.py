# Right: the rest of the model is freed after its forward pass, too; one sum of squared errors for each microbatch
def train_fully_sharded(model, steps, rate, max_norm):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in reversed(model.blocks):
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, foreach=False)
    norms = []
    for microbatches in steps:
        numbers = sum(targets.numel() for _, targets in microbatches)
        model.set_requires_gradient_sync(False)
        for k in range(len(microbatches)):
            if k + 1 == len(microbatches):
                model.set_requires_gradient_sync(True)
            inputs, targets = microbatches[k]
            ((model(inputs) - targets).pow(2).sum() / numbers).backward()
        norms += [torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False).item()]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return norms
