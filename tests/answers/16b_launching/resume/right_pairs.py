# Right: a rank after the other exchanges its list with each, in one order, and looks at files through a class.
class Folder:
    def __init__(self, path):
        self.path = path

    def __getitem__(self, step):
        try:
            data = (self.path / f"step-{step}.pt").read_bytes()
        except OSError:
            return None
        return data[32:] if hashlib.new("sha256", data[32:]).digest() == data[:32] else None

    def __iter__(self):
        try:
            names = sorted(os.listdir(self.path))
        except FileNotFoundError:
            names = []
        for name in names:
            head, dash, tail = name.partition("-")
            number, dot, ending = tail.partition(".")
            if (head, ending) == ("step", "pt") and number.isdecimal() and 0 < int(number) < 1_000_000_000:
                if str(int(number)) == number and self[number] is not None:
                    yield int(number)


def resume(comm, folder, model, optimizer):
    mine = torch.full((16,), 0.0, dtype=torch.float64)
    for k, step in enumerate(Folder(folder)):
        mine[k] = step
    common = mine
    for a in range(comm.world_size):
        for b in range(a):
            if comm.rank in (a, b):
                theirs = torch.empty_like(mine)
                comm.exchange(mine, a + b - comm.rank, theirs, a + b - comm.rank)
                common = common * torch.tensor([step in theirs for step in common])
    step = round(common.max().item())
    if not step:
        return 0
    saved = torch.load(io.BytesIO(Folder(folder)[step]), map_location=comm.device)
    for what, state in ((model, saved["model"]), (optimizer, saved["optimizer"])):
        what.load_state_dict(state)
    return saved["step"]
