# Right: one variable after another.
def rendezvous_environment(slurm):
    counts = []
    for part in slurm["SLURM_STEP_TASKS_PER_NODE"].split(","):
        count, _, times = part.partition("(x")
        counts += [count] * int(times.rstrip(")") or "1")
    nodes = expand_nodelist(slurm["SLURM_STEP_NODELIST"])
    port = 10_000 + int(slurm["SLURM_JOB_ID"]) % 10_000
    found = {}
    found["RANK"] = slurm["SLURM_PROCID"]
    found["WORLD_SIZE"] = slurm["SLURM_STEP_NUM_TASKS"]
    found["LOCAL_RANK"] = slurm["SLURM_LOCALID"]
    found["LOCAL_WORLD_SIZE"] = counts[int(slurm["SLURM_NODEID"])]
    found["MASTER_ADDR"] = nodes[0]
    found["MASTER_PORT"] = str(port)
    return found
