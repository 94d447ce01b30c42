# Right: every rank sends its list to every other one.
import re


def good_checkpoints(folder):
    good = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        match = re.fullmatch(r"step-([1-9][0-9]{0,8})\.pt", path.name)
        if match:
            content = path.read_bytes()
            checksum, rest = content[:32], content[32:]
            if hashlib.sha256(rest).digest() == checksum:
                good[int(match[1])] = rest
    return good


def resume(comm, folder, model, optimizer):
    good = good_checkpoints(folder)
    mine = torch.zeros(16, dtype=torch.int64)
    for k, step in enumerate(good):
        mine[k] = step
    others = [rank for rank in range(comm.world_size) if rank != comm.rank]
    lists = {rank: torch.empty(16, dtype=torch.int64) for rank in others}
    works = [comm.irecv(lists[rank], rank) for rank in others]
    works += [comm.isend(mine, rank) for rank in others]
    for work in works:
        work.wait()
    common = set(good)
    for steps in lists.values():
        common.intersection_update(steps.tolist())
    step = max(common, default=0)
    if step > 0:
        checkpoint = torch.load(io.BytesIO(good[step]))
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    return step
