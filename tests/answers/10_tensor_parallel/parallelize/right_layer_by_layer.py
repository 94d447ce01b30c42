# Right: each layer and module by a call of its own, found by its name; every rank cuts its own copy of the weights.
def parallelize(model):
    mesh = init_device_mesh("cpu", [dist.get_world_size()], mesh_dim_names=("tensor",))["tensor"]

    def cut(module, style):
        parallelize_module(module, mesh, style, src_data_rank=None)

    for name, module in list(model.named_modules()):
        last = name.split(".")[-1]
        if last in ("q", "k", "v", "up", "gate"):
            cut(module, ColwiseParallel())
        elif last in ("out", "down"):
            cut(module, RowwiseParallel())
        elif last in ("attention", "mlp"):
            cut(module, PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate()))
