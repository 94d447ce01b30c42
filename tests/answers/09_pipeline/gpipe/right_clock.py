# Right: goes through the seconds of the picture, along its diagonals.
def gpipe(num_stages, num_microbatches):
    schedule = [[] for _ in range(num_stages)]
    ticks = range(num_microbatches + num_stages - 1)
    for kind, order in (("F", range(num_stages)), ("B", range(num_stages - 1, -1, -1))):
        for tick in ticks:
            for late, stage in enumerate(order):
                if 0 <= tick - late < num_microbatches:
                    schedule[stage].append(str(stage) + kind + str(tick - late))
    return schedule
