# Right: a dict of another kind, with texts that f-strings make; a missing variable is a ValueError.
from collections import OrderedDict

NEEDED = "JOB_ID STEP_NODELIST STEP_NUM_TASKS STEP_TASKS_PER_NODE PROCID LOCALID NODEID".split()


def rendezvous_environment(slurm):
    try:
        job, nodes, tasks, per_node, rank, local, node = (slurm[f"SLURM_{name}"] for name in NEEDED)
    except KeyError as missing:
        raise ValueError(f"{missing.args[0]} is not set: is this a step of srun's?") from None
    counts = []
    for word in per_node.replace(")", "").split(","):
        number, times = (word.split("(x") + ["1"])[:2]
        counts.extend([int(number)] * int(times))
    found = OrderedDict(RANK=f"{rank}", WORLD_SIZE=f"{tasks}", LOCAL_RANK=f"{local}")
    found["LOCAL_WORLD_SIZE"] = f"{counts[int(node)]}"
    found.update(MASTER_ADDR=[*expand_nodelist(nodes)][0], MASTER_PORT=f"{1024 + int(job) % 30_000:d}")
    return found
