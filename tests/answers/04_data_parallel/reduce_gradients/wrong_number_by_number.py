# Wrong: sends every number in a message of its own. Loses all marks.
# Told: every message pays for its latency
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        for number in parameter.grad.view(-1):
            if comm.rank != 0:
                comm.send(number, 0)
                continue
            incoming = torch.empty_like(number)
            for src in range(1, comm.world_size):
                comm.recv(incoming, src)
                number += incoming
