# Right: lists go up a tree, the choice comes down, and parameters are copied one by one.
from pathlib import PurePath


def resume(comm, folder, model, optimizer):
    table = {}
    for name in map(str, folder.rglob("step-*.pt")):
        with open(name, "rb") as file:
            checksum, content = file.read(32), file.read()
        digest = hashlib.sha256()
        digest.update(content)
        if checksum == digest.digest():
            word = PurePath(name).stem.removeprefix("step-")
            if word.isdecimal() and word[0] != "0" and len(word) < 10:
                table[int(word)] = io.BytesIO(content)
    me, n = comm.rank, comm.world_size
    children = [child for child in (2 * me + 1, 2 * me + 2) if child < n]
    steps = list(table)
    for child in children:
        buffer = torch.zeros(17, dtype=torch.long)
        comm.recv(buffer, child)
        steps = [step for step in steps if step in buffer[1:][: buffer[0]].tolist()]
    best = torch.tensor(max(steps or [0]))
    if me:
        comm.send(torch.tensor([len(steps), *steps] + [0] * (16 - len(steps))), (me - 1) // 2)
        comm.recv(best, (me - 1) // 2)
    for child in children:
        comm.send(best, child)
    if best > 0:
        state = torch.load(table[best.item()])
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(state["model"][name])
        optimizer.load_state_dict(state["optimizer"])
    return int(best)
