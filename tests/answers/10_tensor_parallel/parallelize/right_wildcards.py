# Right: one plan for the whole model, in which a star stands for the number of a block.
def parallelize(model):
    styles = {"q": ColwiseParallel, "k": ColwiseParallel, "v": ColwiseParallel, "out": RowwiseParallel}
    plan = {f"blocks.*.attention.{name}": style() for name, style in styles.items()}
    plan["blocks.*.mlp.up"] = ColwiseParallel()
    plan["blocks.*.mlp.down"] = RowwiseParallel()
    if any(block.mlp.gate is not None for block in model.blocks):
        plan["blocks.*.mlp.gate"] = ColwiseParallel()
    for module in ("attention", "mlp"):
        plan[f"blocks.*.{module}"] = PrepareModuleInput(
            input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),)
        )
    parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)
