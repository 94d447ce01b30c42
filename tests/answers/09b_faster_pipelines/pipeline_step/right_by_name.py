# Right: the class of the schedule by its name, the losses from a loss function of one's own, and the division by hand.
def pipeline_step(module, num_microbatches, inputs, targets, loss_function, reduction):
    from torch.distributed.pipelining.schedules import get_schedule_class

    def weighed(outputs, wanted):
        share = num_microbatches if reduction == "mean" else 1
        return loss_function(outputs, wanted) / share

    stage = PipelineStage(module, dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
    schedule = get_schedule_class("1F1B")(stage, num_microbatches, loss_fn=weighed, scale_grads=False)
    found = []
    if stage.is_first and stage.is_last:
        schedule.step(inputs, target=targets, losses=found)
    elif stage.is_first:
        schedule.step(inputs)
    elif stage.is_last:
        schedule.step(target=targets, losses=found)
    else:
        schedule.step()
    if not stage.is_last:
        return None
    share = num_microbatches if reduction == "mean" else 1
    return [float(loss.detach()) * share for loss in found]
