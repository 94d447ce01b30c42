# Right: broadcasts each tensor itself, keeps this rank's rows, and makes the moments like the parameters
def load_whole_state(model, optimizer, state):
    def rows(name, target):
        whole = torch.empty(target.shape, dtype=target.dtype)
        if dist.get_rank() == 0:
            whole.copy_(state["model"][name[0]] if len(name) == 1 else state["optimizer"]["state"][name[0]][name[1]])
        dist.broadcast(whole, 0)
        chunks = whole.chunk(dist.get_world_size())
        own = chunks[dist.get_rank()] if dist.get_rank() < len(chunks) else whole[:0]
        target.to_local().copy_(own)

    told = [None]
    if dist.get_rank() == 0:
        steps = {}
        for name, each in state["optimizer"]["state"].items():
            steps[name] = float(each["step"]), [key for key in each if key != "step"]
        told = [(steps, state["optimizer"]["param_groups"])]
    dist.broadcast_object_list(told, 0)
    steps, groups = told[0]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rows((name,), parameter)
            if name in steps:
                step, keys = steps[name]
                moments = {key: torch.zeros_like(parameter) for key in keys}
                for key, moment in moments.items():
                    rows((name, key), moment)
                optimizer.state[parameter] = {"step": torch.tensor(step), **moments}
    for group, saved in zip(optimizer.param_groups, groups):
        group.update({key: value for key, value in saved.items() if key != "params"})
