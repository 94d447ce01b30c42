# Right: every layout is named, and the outputs of column layers stay DTensors up to the next layer.
from torch.distributed.tensor import Shard


def styles(modules):
    inside = {"input_layouts": Replicate(), "output_layouts": Shard(-1), "use_local_output": False}
    for name in modules:
        if name.endswith((".out", ".down")):
            yield name, RowwiseParallel(input_layouts=Shard(-1), output_layouts=Replicate(), use_local_output=True)
        elif name in ("attention", "mlp"):
            yield name, PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
        elif name.startswith(("attention.", "mlp.")):
            yield name, ColwiseParallel(**inside)


def parallelize(model):
    mesh = init_device_mesh("cpu", tuple([dist.get_world_size()]))
    for block in model.blocks:
        names = [name for name, _ in block.named_modules() if name]
        parallelize_module(block, mesh, dict(styles(names)))
