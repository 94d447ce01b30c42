# Right: distribute_tensor scatters from rank 0, so that no other rank has a whole tensor
from torch.distributed.tensor import distribute_tensor


def load_whole_state(model, optimizer, state):
    root = dist.get_rank() == 0
    parameters = dict(model.named_parameters())

    def cut(tensor, like):
        tensor = tensor if root else torch.empty(like.shape, dtype=like.dtype)
        return distribute_tensor(tensor.detach().clone(), like.device_mesh, like.placements)

    saved = state["optimizer"] if root else {"state": {}, "param_groups": []}
    heading = {name: (each["step"].item(), sorted({*each} - {"step"})) for name, each in saved["state"].items()}
    told = [heading, saved["param_groups"]]
    dist.broadcast_object_list(told, src=0)
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = {parameter: number for number, parameter in enumerate(trained)}
    states = {}
    for name, parameter in parameters.items():
        loaded = cut(state["model"][name] if root else None, parameter)
        parameter.data.to_local().copy_(loaded.to_local())
        if name in told[0]:
            mine = saved["state"].get(name, {})
            step, keys = told[0][name]
            moments = {key: cut(mine.get(key), parameter) for key in keys}
            states[numbers[parameter]] = {"step": torch.tensor(step), **moments}
    groups = optimizer.state_dict()["param_groups"]
    groups = [{**new, "params": own["params"]} for own, new in zip(groups, told[1])]
    optimizer.load_state_dict({"state": states, "param_groups": groups})
