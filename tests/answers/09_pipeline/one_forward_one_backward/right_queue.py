# Right: counts what is under way, and goes back when there is enough of it.
def one_forward_one_backward(num_stages, num_microbatches):
    schedule = [[] for _ in range(num_stages)]
    for stage, actions in enumerate(schedule):
        under_way, following = [], 0
        while following < num_microbatches or under_way:
            if following < num_microbatches and len(under_way) < num_stages - stage:
                actions.append(f"{stage}F{following}")
                under_way.append(following)
                following += 1
            else:
                actions.append(f"{stage}B{under_way.pop(0)}")
    print(schedule[0])
    return schedule
