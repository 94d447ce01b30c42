# Right: sorts what fits by time.
import itertools


def choose_strategy(model, cluster, memory, speed):
    sizes = [n for n in range(1, cluster.world_size + 1) if cluster.world_size % n == 0]
    possible = [
        dict(dp=dp, pp=pp, tp=tp)
        for dp, pp, tp in itertools.product(sizes, repeat=3)
        if dp * pp * tp == cluster.world_size
        and not (model["batch"] % dp or model["layers"] % pp or model["heads"] % tp)
    ]
    needs = [layout_memory(model, each) for each in possible]
    fitting = [each for each, nbytes in zip(possible, needs) if nbytes <= memory]
    if fitting == []:
        raise ValueError("no layout fits; the smallest takes " + str(round(min(needs))))
    return sorted(fitting, key=lambda each: layout_seconds(model, cluster, speed, each))[0]
