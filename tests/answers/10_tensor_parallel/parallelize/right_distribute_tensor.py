# Right: parameters made DTensors one by one, and hooks around attention and MLP.
def parallelize(model):
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def make(layer, placements):
        for name, parameter in list(layer.named_parameters()):
            layer.register_parameter(name, torch.nn.Parameter(distribute_tensor(parameter, mesh, [placements[name]])))

    def enter(module, inputs):
        return (DTensor.from_local(inputs[0], mesh, [Replicate()], run_check=False),)

    def leave(module, inputs, output):
        return output.redistribute(mesh, [Replicate()]).to_local()

    columns = {"weight": Shard(0), "bias": Shard(0)}
    rows = {"weight": Shard(1), "bias": Replicate()}
    for block in model.blocks:
        for layer in (block.attention.q, block.attention.k, block.attention.v, block.mlp.up, block.mlp.gate):
            if layer is not None:
                make(layer, columns)
        for layer in (block.attention.out, block.mlp.down):
            make(layer, rows)
        for module in (block.attention, block.mlp):
            module.register_forward_pre_hook(enter)
            module.register_forward_hook(leave)
