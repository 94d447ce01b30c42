# Right: groups by name, parameters parallelized without sending, norms to a power of two
def train_on_mesh(model, dp_size, tp_size, steps, rate, max_norm):
    mesh = init_device_mesh("cpu", (dp_size, tp_size), mesh_dim_names=("dp", "tp"))
    dp, tp = mesh["dp"], mesh["tp"]
    for number in range(len(model.blocks)):
        plan = dict(up=ColwiseParallel(), down=RowwiseParallel())
        parallelize_module(model.blocks[number], tp, plan, src_data_rank=None)
        fully_shard(model.blocks[number], mesh=dp)
    fully_shard(model, mesh=dp)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, foreach=False)
    named = dict(model.named_parameters())
    cut = [each for name, each in named.items() if ".up." in name or ".down." in name]
    others = [each for name, each in named.items() if ".up." not in name and ".down." not in name]
    norms = [0.0] * len(steps)
    for step, batch in enumerate(steps):
        model.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(batch[0]), batch[1]).backward()
        one = torch.nn.utils.clip_grad_norm_(cut, float("inf")).full_tensor()
        other = torch.nn.utils.clip_grad_norm_(others, float("inf")).full_tensor()
        norm = torch.hypot(one, other)
        torch.nn.utils.clip_grads_with_norm_(cut, max_norm, norm, foreach=False)
        torch.nn.utils.clip_grads_with_norm_(others, max_norm, norm, foreach=False)
        norms[step] = norm.item()
        optimizer.step()
    return norms
