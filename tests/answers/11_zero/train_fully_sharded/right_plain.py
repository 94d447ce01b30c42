# Right: the blocks, the model, the optimizer, and a switch that is set in every microbatch.
def train_fully_sharded(model, steps, rate, max_norm):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    norms = []
    for microbatches in steps:
        optimizer.zero_grad()
        for number, (inputs, targets) in enumerate(microbatches, 1):
            model.set_requires_gradient_sync(number == len(microbatches))
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss = loss / len(microbatches)
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        norms.append(norm.full_tensor().item())
        optimizer.step()
    return norms
