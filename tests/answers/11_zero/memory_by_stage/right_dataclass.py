# Right: a small class of its own keeps what a unit takes
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    import dataclasses
    import math

    @dataclasses.dataclass
    class Kept:
        whole: int = 0
        shard: int = 0

        def add(self, n):
            self.whole += n
            self.shard += math.ceil(n / world_size)
            return self

    kept = Kept()
    for n in lengths:
        kept.add(n)
    stages = []
    for stage in range(4):
        p = kept.shard if stage >= 3 else kept.whole
        g = kept.shard if stage >= 2 else kept.whole
        s = kept.shard if stage >= 1 else kept.whole
        stages.append(p * parameter_bytes + g * gradient_bytes + s * state_bytes)
    return stages
