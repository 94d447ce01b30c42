# Right: the operator stands behind the norms, and not before attention and MLP.
def parallelize(model):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import PrepareModuleOutput

    mesh = DeviceMesh("cpu", list(range(dist.get_world_size())))
    same = {"output_layouts": Replicate(), "desired_output_layouts": Replicate(), "use_local_output": False}
    for block in model.blocks:
        plan = {"norm1": PrepareModuleOutput(**same), "norm2": PrepareModuleOutput(**same)}
        plan |= {"attention.[qkv]": ColwiseParallel(), "attention.out": RowwiseParallel()}
        plan |= {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
        if block.mlp.gate is not None:
            plan |= {"mlp.gate": ColwiseParallel()}
        parallelize_module(block, device_mesh=mesh, parallelize_plan=plan)
