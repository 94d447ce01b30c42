# Wrong: also writes os.environ. Loses all marks.
# Told: os.environ has changed
import os
import re
from collections.abc import Mapping


def rendezvous_environment(slurm: Mapping[str, str]) -> dict[str, str]:
    per_node = []
    for part in slurm["SLURM_STEP_TASKS_PER_NODE"].split(","):
        m = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        per_node += [int(m[1])] * int(m[2] or 1)
    node = int(slurm["SLURM_NODEID"])
    result = {
        "RANK": slurm["SLURM_PROCID"],
        "WORLD_SIZE": slurm["SLURM_STEP_NUM_TASKS"],
        "LOCAL_RANK": slurm["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(per_node[node]),
        "MASTER_ADDR": expand_nodelist(slurm["SLURM_STEP_NODELIST"])[0],
        "MASTER_PORT": str(10_000 + int(slurm["SLURM_JOB_ID"]) % 10_000),
    }
    os.environ.update(result)
    return result
