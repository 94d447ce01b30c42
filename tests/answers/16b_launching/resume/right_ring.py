# Right: the list goes once around the ring, and on each rank loses what is not good there; then the choice goes around.
def read(path):
    content = path.read_bytes()
    return content[32:] if hashlib.sha256(content[32:]).hexdigest() == content[:32].hex() else None


def resume(comm, folder, model, optimizer):
    files = {path.name: read(path) for path in folder.glob("*") if path.is_file()}
    good = [int(name[5:-3]) for name, rest in files.items() if rest and re.match(r"^step-(?!0)\d{1,9}\.pt$", name)]
    good = torch.tensor(good + [-1] * (16 - len(good)), dtype=torch.int32)
    n, next_rank, previous_rank = comm.world_size, (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    step = torch.zeros(1, dtype=torch.int32)
    if comm.rank > 0:
        left = torch.empty_like(good)
        comm.recv(left, previous_rank)
        good = torch.where(torch.isin(good, left), good, -1)
    if comm.rank < n - 1:
        comm.send(good, next_rank)
        comm.recv(step, previous_rank if comm.rank else n - 1)
    else:
        step = good.max().clamp(min=0)[None]
    if n > 1 and comm.rank != n - 2:
        comm.send(step, next_rank)
    number = int(step)
    if number:
        state = torch.load(io.BytesIO(files[f"step-{number}.pt"]))
        optimizer.load_state_dict(state["optimizer"])
        model.load_state_dict(state["model"])
    return number
