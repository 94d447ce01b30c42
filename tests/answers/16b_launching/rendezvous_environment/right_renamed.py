# Right: a table of names, a port from the last four digits, and an error of its own.
import re

NAMES = {"SLURM_PROCID": "RANK", "SLURM_STEP_NUM_TASKS": "WORLD_SIZE", "SLURM_LOCALID": "LOCAL_RANK"}
OTHERS = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID")


def rendezvous_environment(slurm):
    missing = {*NAMES, *OTHERS} - set(slurm)
    if missing:
        raise ValueError(f"not in a step of Slurm's? {', '.join(missing)} is not there")
    job, nodes, tasks, node = map(slurm.get, OTHERS)
    tasks = re.sub(r"(\d+)\(x(\d+)\)", lambda found: ",".join([found[1]] * int(found[2])), tasks)
    return {new: slurm[old] for old, new in NAMES.items()} | {
        "LOCAL_WORLD_SIZE": tasks.split(",")[int(node)],
        "MASTER_ADDR": next(iter(expand_nodelist(nodes))),
        "MASTER_PORT": "2" + job.zfill(4)[-4:],
    }
