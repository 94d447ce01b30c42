# Right: the parameters by their mesh, the norm of each group, the root of the sum of squares.
def train_on_mesh(model, dp_size, tp_size, steps, rate, max_norm):
    mesh = init_device_mesh("cpu", (dp_size, tp_size), mesh_dim_names=("dp", "tp"))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], plan)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device_mesh, []).append(parameter)
    norms = []
    for inputs, targets in steps:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        parts = [torch.nn.utils.get_total_norm([p.grad for p in group]) for group in groups.values()]
        parts = [part.full_tensor() for part in parts]
        norm = torch.stack(parts).norm()
        for group in groups.values():
            torch.nn.utils.clip_grads_with_norm_(group, max_norm, norm)
        norms.append(norm.item())
        optimizer.step()
    return norms
