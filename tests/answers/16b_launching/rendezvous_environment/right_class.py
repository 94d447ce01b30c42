# Right: a class that looks like a dict of the step, and a port that knows the step, too.
class Task(dict):
    def __missing__(self, name):
        raise KeyError(f"no {name}")

    def of(self, name):
        return self["SLURM_" + name]

    @property
    def counts(self):
        expanded = []
        for part in self.of("STEP_TASKS_PER_NODE").split(","):
            if part.endswith(")"):
                count, times = part[:-1].split("(x")
                expanded.extend(int(times) * [count])
            else:
                expanded.append(part)
        return expanded

    @property
    def port(self):
        return 20_000 + (int(self.of("JOB_ID")) + int(self.get("SLURM_STEP_ID", "0")) * 5_000) % 12_000


def rendezvous_environment(slurm):
    task = Task(slurm)
    return dict(
        RANK=task.of("PROCID"),
        LOCAL_RANK=task.of("LOCALID"),
        WORLD_SIZE=task.of("STEP_NUM_TASKS"),
        LOCAL_WORLD_SIZE=task.counts[int(task.of("NODEID"))],
        MASTER_ADDR=expand_nodelist(task.of("STEP_NODELIST"))[0],
        MASTER_PORT=str(task.port),
    )
