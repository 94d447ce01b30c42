# Wrong: 1024 + number % 32767: up to 33,790, and Linux hands those out. Loses all marks.
def rendezvous_environment(slurm):
    counts = []
    for part in slurm["SLURM_STEP_TASKS_PER_NODE"].split(","):
        tasks, _, times = part.rstrip(")").partition("(x")
        counts += [tasks] * int(times or 1)
    return {
        "RANK": slurm["SLURM_PROCID"],
        "WORLD_SIZE": slurm["SLURM_STEP_NUM_TASKS"],
        "LOCAL_RANK": slurm["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": counts[int(slurm["SLURM_NODEID"])],
        "MASTER_ADDR": expand_nodelist(slurm["SLURM_STEP_NODELIST"])[0],
        "MASTER_PORT": str(1024 + int(slurm["SLURM_JOB_ID"]) % 32767),
    }
