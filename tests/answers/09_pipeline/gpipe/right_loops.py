# Right: plain loops, a row for each stage.
def gpipe(num_stages, num_microbatches):
    schedule = []
    for stage in range(num_stages):
        actions = []
        for microbatch in range(num_microbatches):
            actions.append(f"{stage}F{microbatch}")
        for microbatch in range(num_microbatches):
            actions.append(f"{stage}B{microbatch}")
        schedule.append(actions)
    return schedule
