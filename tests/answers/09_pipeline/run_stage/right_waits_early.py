# Right: an output is there when its gradient comes back, so its handle is waited for then; handles of irecv.
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    rank, world_size = comm.rank, comm.world_size
    total, batch, store, last_sends = None, sum(s[0] for s in shapes), {}, []
    for kind, i in [read_action(action) for action in actions]:
        if kind == "F":
            if rank:
                x = torch.zeros(list(shapes[i])).double()
                comm.irecv(x, src=rank - 1, tag=i).wait()
            else:
                x = inputs[i].clone()
            x.requires_grad_()
            y, work = module(x), None
            if rank + 1 < world_size:
                work = comm.isend(y.detach().clone(), rank + 1, tag=i)
            store[i] = [x, y, work]
        else:
            x, y, work = store[i]
            store[i] = None
            if work is None:
                loss = loss_function(y, targets[i]) * (len(targets[i]) / batch)
                total = (total or 0.0) + float(loss)
                loss.backward()
            else:
                g = torch.zeros_like(y)
                comm.irecv(g, src=rank + 1, tag=i).wait()
                work.wait()
                torch.autograd.backward([y], [g])
            if rank:
                last_sends.append(comm.isend(x.grad, rank - 1, tag=i))
    while last_sends:
        last_sends.pop().wait()
    return total
