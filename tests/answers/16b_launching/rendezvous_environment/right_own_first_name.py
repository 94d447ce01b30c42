# Right: finds the first name itself, counts down to its node, and returns all variables, with the six among them.
import re


def rendezvous_environment(slurm):
    everything = dict(slurm)
    first = re.sub(r"\[(\d+)[^\]]*\]", r"\1", re.match(r"(?:[^,\[]|\[[^\]]*\])+", slurm["SLURM_STEP_NODELIST"])[0])
    node, mine = int(slurm["SLURM_NODEID"]), None
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", slurm["SLURM_STEP_TASKS_PER_NODE"]):
        node -= int(times or 1)
        if node < 0:
            mine = count
            break
    everything.update(
        RANK=slurm["SLURM_PROCID"],
        WORLD_SIZE=slurm["SLURM_STEP_NUM_TASKS"],
        LOCAL_RANK=slurm["SLURM_LOCALID"],
        LOCAL_WORLD_SIZE=mine,
        MASTER_ADDR=first,
        MASTER_PORT=str(1024 + int(slurm["SLURM_JOB_ID"]) % (32_768 - 1024)),
    )
    return everything
