# Right: makes each DTensor whole itself, one after the other, and finds the optimizer's names by its parameters
def whole_state(model, optimizer):
    keeps = dist.get_rank() == 0
    names = {parameter: name for name, parameter in model.named_parameters()}

    def whole(tensor):
        tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        return tensor.detach().clone() if keeps else None

    weights = {name: whole(parameter) for parameter, name in names.items()}
    states = {}
    for parameter, moments in optimizer.state.items():
        states[names[parameter]] = {key: whole(value) for key, value in moments.items()}
    if not keeps:
        return {"model": {}, "optimizer": {}}
    groups = []
    for group in optimizer.param_groups:
        groups.append({**group, "params": [names[parameter] for parameter in group["params"]]})
    return {"model": weights, "optimizer": {"state": states, "param_groups": groups}}
