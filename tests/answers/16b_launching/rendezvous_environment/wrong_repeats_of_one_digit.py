# Wrong: reads one digit of how often a number repeats. Loses the hidden marks.
# Told: SLURM_STEP_TASKS_PER_NODE is a text such as 2(x3),1
def rendezvous_environment(slurm):
    job, nodes, tasks, per_node, rank, local, node = (
        slurm[f"SLURM_{name}"]
        for name in ("JOB_ID", "STEP_NODELIST", "STEP_NUM_TASKS", "STEP_TASKS_PER_NODE", "PROCID", "LOCALID", "NODEID")
    )
    counts = []
    for part in per_node.split(","):
        number, times = re.fullmatch(r"(\d+)(?:\(x(\d)\d*\))?", part).groups()
        counts += [number] * int(times or 1)
    return {
        "RANK": rank,
        "WORLD_SIZE": tasks,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": counts[int(node)],
        "MASTER_ADDR": expand_nodelist(nodes)[0],
        "MASTER_PORT": str(10000 + int(job) % 10000),
    }
