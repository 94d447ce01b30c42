# Right: a plan for each block, from two comprehensions.
def parallelize(model):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
        columns = ["attention.q", "attention.k", "attention.v", "mlp.up"]
        if block.mlp.gate is not None:
            columns.append("mlp.gate")
        rows = ["attention.out", "mlp.down"]
        plan = {name: ColwiseParallel() for name in columns} | {name: RowwiseParallel() for name in rows}
        plan |= {"attention": whole, "mlp": whole}
        parallelize_module(block, mesh, plan)
