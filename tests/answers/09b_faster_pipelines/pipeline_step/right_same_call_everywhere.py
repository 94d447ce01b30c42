# Right: all ranks make the same call; what a rank does not have is None.
def pipeline_step(module, num_microbatches, inputs, targets, loss_function, reduction):
    stage = PipelineStage(module, dist.get_rank(), dist.get_world_size(), torch.device("cpu"), group=dist.group.WORLD)
    schedule = Schedule1F1B(
        stage=stage,
        n_microbatches=num_microbatches,
        loss_fn=loss_function,
        scale_grads={"mean": True, "sum": False}[reduction],
    )
    losses = []
    schedule.step(*([inputs] if inputs is not None else []), target=targets, losses=losses)
    return list(map(float, losses)) if targets is not None else None
