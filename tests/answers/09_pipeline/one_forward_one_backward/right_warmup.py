# Right: warm-up, then one of each, then the rest.
def one_forward_one_backward(num_stages, num_microbatches):
    schedule = []
    for stage in range(num_stages):
        warmup = min(num_stages - stage - 1, num_microbatches)
        steady = num_microbatches - warmup
        actions = [f"{stage}F{number}" for number in range(warmup)]
        for number in range(steady):
            actions.append(f"{stage}F{warmup + number}")
            actions.append(f"{stage}B{number}")
        actions += [f"{stage}B{number}" for number in range(steady, num_microbatches)]
        schedule.append(actions)
    return schedule
