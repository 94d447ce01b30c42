# Right: computes with numbers, and makes texts of them at the end.
def number(slurm, name):
    try:
        return int(slurm[name])
    except LookupError:
        raise KeyError(f"{name} is missing: was this started by srun?") from None


def rendezvous_environment(slurm):
    def counts():
        for part in slurm["SLURM_STEP_TASKS_PER_NODE"].replace("(x", "*").replace(")", "").split(","):
            count, *times = map(int, part.split("*"))
            for _ in range(*times or [1]):
                yield count

    step = tuple(counts())
    values = {
        "MASTER_PORT": 12_345 + number(slurm, "SLURM_JOB_ID") % 20_011,
        "RANK": number(slurm, "SLURM_PROCID"),
        "WORLD_SIZE": number(slurm, "SLURM_STEP_NUM_TASKS"),
        "LOCAL_RANK": number(slurm, "SLURM_LOCALID"),
        "LOCAL_WORLD_SIZE": step[number(slurm, "SLURM_NODEID")],
        "MASTER_ADDR": expand_nodelist(slurm["SLURM_STEP_NODELIST"])[0],
    }
    return {name: f"{value}" for name, value in values.items()}
