# Right: goes through the state_dict, and loads the averages.
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        loss = loss_function(model(inputs), targets).mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
    state = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    flat = torch.cat([value.reshape(-1) for value in state.values()]) / comm.world_size
    all_reduce(comm, flat)
    parts = flat.split([value.numel() for value in state.values()])
    averages = {name: part.view_as(state[name]) for name, part in zip(state, parts)}
    model.load_state_dict(averages, strict=False)
