# Right: one plan for the whole model, sums of squares of the rank's own parts, one all-reduce of a number
from torch.distributed.tensor import Replicate


def copies_of(parameter, dp_size, tp_size):
    """On how many ranks each number of a parameter is."""
    sizes = dict(dp=dp_size, tp=tp_size)
    places = dict(zip(parameter.device_mesh.mesh_dim_names, parameter.placements))
    return torch.tensor([sizes[axis] for axis in sizes if isinstance(places.get(axis, Replicate()), Replicate)]).prod()


def train_on_mesh(model, dp_size, tp_size, steps, rate, max_norm):
    mesh = init_device_mesh("cpu", (dp_size, tp_size), mesh_dim_names=("dp", "tp"))
    parallelize_module(model, mesh["tp"], {"blocks.*.down": RowwiseParallel(), "blocks.*.up": ColwiseParallel()})
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=mesh["dp"])
    norms = []
    for inputs, targets in steps:
        ((model(inputs) - targets) ** 2).mean().backward()
        squares = torch.zeros((), dtype=torch.float64)
        for parameter in model.parameters():
            squares += parameter.grad.to_local().square().sum() / copies_of(parameter, dp_size, tp_size)
        dist.all_reduce(squares)
        norms.append(float(squares) ** 0.5)
        factor = min(1, max_norm / (norms[-1] + 1e-6))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.to_local().sub_(rate * factor * parameter.grad.to_local())
                parameter.grad = None
    return norms
