# Right: second by second, every stage does what it can: a backward pass first; forward only while it may keep one more.
def one_forward_one_backward(num_stages, num_microbatches):
    done, rows, free = {}, [[] for _ in range(num_stages)], [0] * num_stages
    forward, backward = [0] * num_stages, [0] * num_stages
    now = 0
    while min(backward) < num_microbatches:
        for stage in range(num_stages):
            if free[stage] > now:
                continue
            f, b = forward[stage], backward[stage]
            after = done.get(f"{stage}F{b}" if stage == num_stages - 1 else f"{stage + 1}B{b}", now + 1)
            before = 0 if stage == 0 else done.get(f"{stage - 1}F{f}", now + 1)
            if b < f and after <= now:
                rows[stage].append(f"{stage}B{b}")
                backward[stage], free[stage] = b + 1, now + 2
            elif f < num_microbatches and f - b < num_stages - stage and before <= now:
                rows[stage].append(f"{stage}F{f}")
                forward[stage], free[stage] = f + 1, now + 1
            else:
                continue
            done[rows[stage][-1]] = free[stage]
        now += 1
    return rows
