# Right: the step with what this rank has, put together before.
def pipeline_step(module, num_microbatches, inputs, targets, loss_function, reduction):
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(module, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, num_microbatches, loss_fn=loss_function, scale_grads=reduction == "mean")
    batch = (inputs,) if rank == 0 else ()
    losses = []
    last = {"target": targets, "losses": losses} if rank == size - 1 else {}
    schedule.step(*batch, **last)
    return [loss.item() for loss in losses] if rank == size - 1 else None
