"""The patients: what is the matter with each, what it shows on which rank, and what brings it to light."""

from __future__ import annotations

from distlib.clinic.patient import CRASHES, HANGS, SILENT, Patient
from distlib.clinic.patient_report import DIED, ENDED, RAISED, WAITS

_CLOSED = "Connection "  # "closed by peer", or "reset by peer": which, depends on the moment

_HANGING = (
    Patient(
        "skipped_collective",
        ranks=3,
        outcome=HANGS,
        cause="Rank 2 has no samples left in the last step, and skips the all-reduce that the others wait in.",
        cured="A rank without samples takes part, with nothing to add.",
        cure={"    if len(batch) == 0:\n        continue\n    loss = batch.mean()": "    loss = batch.sum()"},
        shows=[(WAITS, "in all_reduce"), (WAITS, "in all_reduce"), (WAITS, "in barrier")],
        served_by={
            "timeout": "Timed out waiting",
            "monitored_barrier": "Rank 2 failed to pass monitoredBarrier",
            "DETAIL": "OpType=BARRIER",
            "py-spy": "barrier (torch/distributed",
            "faulthandler": "of libraries: barrier",
            "flight recorder": "gloo:barrier",
        },
        probe="dist.all_reduce(loss)",
    ),
    Patient(
        "order_of_calls",
        ranks=2,
        outcome=HANGS,
        cause="The ranks make the same two calls in a different order.",
        cured="All ranks make the calls in the same order.",
        cure={
            "    dist.broadcast(stop, src=0)\n    dist.all_reduce(loss)\nelse:\n    dist.all_reduce(loss)": (
                "    dist.all_reduce(loss)\n    dist.broadcast(stop, src=0)\nelse:\n    dist.all_reduce(loss)"
            )
        },
        shows=[(WAITS, "in broadcast"), (WAITS, "in all_reduce")],
        served_by={
            "timeout": "Timed out waiting",
            "DETAIL": "OpType=BROADCAST",
            "flight recorder": "gloo:broadcast [[4]], group 0, NOT OVER",
        },
    ),
    Patient(
        "order_of_groups",
        ranks=2,
        outcome=HANGS,
        cause="The ranks use two groups in a different order. A group of new_group has 30 minutes of its own.",
        cured="All ranks use the groups in the same order.",
        cure={
            "    dist.all_reduce(gradients, group=data)\n    dist.all_reduce(activations, group=tensor)\n": (
                "    dist.all_reduce(activations, group=tensor)\n    dist.all_reduce(gradients, group=data)\n"
            )
        },
        shows=[(WAITS, "in all_reduce"), (WAITS, "in all_reduce")],
        served_by={"flight recorder": "NOT OVER", "py-spy": "all_reduce (torch/distributed"},
        seconds=6.0,
    ),
    Patient(
        "different_roots",
        ranks=2,
        outcome=HANGS,
        cause="Each rank finds the best model by its own data, and both send. Nobody receives.",
        cured="The ranks add up their losses before they choose.",
        cure={"best = int(losses.argmin())": "dist.all_reduce(losses)\nbest = int(losses.argmin())"},
        shows=[(WAITS, "in broadcast"), (WAITS, "in broadcast")],
        served_by={"timeout": "for send operation", "flight recorder": "gloo:broadcast [[3]], group 0, NOT OVER"},
    ),
    Patient(
        "barrier_on_rank_zero",
        ranks=2,
        outcome=HANGS,
        cause="Only rank 0 calls the barrier. The other waits in the all-reduce of the next step.",
        cured="All ranks call the barrier.",
        cure={"        dist.barrier()": "    dist.barrier()"},
        shows=[(WAITS, "in barrier"), (WAITS, "in all_reduce")],
        served_by={"monitored_barrier": "Rank 1 failed to pass monitoredBarrier", "DETAIL": "OpType=BARRIER"},
        probe="dist.barrier()",
    ),
    Patient(
        "local_condition",
        ranks=2,
        outcome=HANGS,
        cause="Each rank decides by its own loss whether to make a collective call.",
        cured="The ranks agree on the loss before they decide.",
        cure={
            "if loss > 2:": "dist.all_reduce(loss, dist.ReduceOp.MAX)\nif loss > 2:",
        },
        shows=[(WAITS, "in all_reduce"), (WAITS, "in broadcast")],
        served_by={"DETAIL": "OpType=BROADCAST", "faulthandler": "of libraries: broadcast"},
    ),
    Patient(
        "uneven_data",
        ranks=2,
        outcome=HANGS,
        cause="Rank 0 has five samples and rank 1 four. Rank 0's last backward pass waits for an all-reduce.",
        cured="Ranks that have run out of samples answer the others, inside model.join().",
        cure={
            "for batch in samples[rank::2].split(1):\n    model(batch).sum().backward()": (
                "with model.join():\n    for batch in samples[rank::2].split(1):\n        model(batch).sum().backward()"
            )
        },
        shows=[(WAITS, "model(batch).sum().backward()"), (WAITS, "in barrier")],
        served_by={
            "monitored_barrier": "Rank 1 failed to pass monitoredBarrier",
            "py-spy": "barrier (torch/distributed",
        },
        probe="model(batch)",
    ),
    Patient(
        "save_on_rank_zero",
        ranks=2,
        outcome=HANGS,
        cause="Only rank 0 collects the optimizer's state, of which every rank has a part to send.",
        cured="All ranks take part in collecting it, and rank 0 saves.",
        cure={
            "if rank == 0:\n    optimizer.consolidate_state_dict(to=0)\n": (
                "optimizer.consolidate_state_dict(to=0)\nif rank == 0:\n"
            )
        },
        shows=[(WAITS, "consolidate_state_dict"), (WAITS, "in barrier")],
        served_by={"monitored_barrier": "Rank 1 failed to pass monitoredBarrier", "DETAIL": "OpType=BARRIER"},
        probe="optimizer.consolidate_state_dict",
    ),
    Patient(
        "extra_forward",
        ranks=2,
        outcome=HANGS,
        cause="In a forward pass DDP sends rank 0's BatchNorm buffers to all; rank 1 does not make that extra pass.",
        cured="Rank 0 evaluates the model itself, model.module, which sends nothing.",
        cure={"validation = model(torch.ones(4, 2))": "validation = model.module(torch.ones(4, 2))"},
        shows=[(WAITS, "in forward, line 11"), (WAITS, "in backward, line 11")],
        served_by={"monitored_barrier": "Rank 1 failed to pass monitoredBarrier", "py-spy": "_sync_module_buffers"},
        probe="validation = model",
    ),
    Patient(
        "slow_rank",
        ranks=2,
        outcome=HANGS,
        cause="Rank 1 is alive, and has much more to do than rank 0.",
        cured="The images are dealt out evenly.",
        cure={"[0, 10_000][rank]": "[1, 1][rank]"},
        shows=[(WAITS, "in all_reduce"), (WAITS, "time.sleep(1)")],
        served_by={
            "monitored_barrier": "Rank 1 failed to pass monitoredBarrier",
            "py-spy": "<module> (slow_rank.py:13)",
            "faulthandler": 'File "slow_rank.py", line 16 in <module>',
        },
        probe="dist.all_reduce",
    ),
    Patient(
        "wrong_port",
        ranks=2,
        outcome=HANGS,
        cause="Every rank looks for rank 0 at a port of its own.",
        cured="All ranks have the same MASTER_PORT.",
        cure={' + int(os.environ["RANK"])': ""},
        shows=[(WAITS, "init_process_group"), (WAITS, "init_process_group")],
        served_by={"timeout": "1/2 clients joined"},
    ),
    Patient(
        "wrong_world_size",
        ranks=2,
        outcome=HANGS,
        cause="Two ranks have been started, and each waits for a third.",
        cured="The world size comes from the launcher.",
        cure={"world_size=3": 'world_size=int(os.environ["WORLD_SIZE"])'},
        shows=[(WAITS, "init_process_group"), (WAITS, "init_process_group")],
        served_by={"timeout": "2/3 clients joined"},
    ),
    Patient(
        "two_rank_zeros",
        ranks=2,
        outcome=HANGS,
        cause="Without Slurm both processes think that they are rank 0, and both listen on the same port.",
        cured="The rank comes from the launcher.",
        cure={'os.environ.get("SLURM_PROCID", 0)': 'os.environ["RANK"]'},
        shows=[(WAITS, "init_process_group"), (RAISED, "EADDRINUSE")],
        served_by={"timeout": "1/2 clients joined"},
        any_order=True,
    ),
)

_CRASHING = (
    Patient(
        "shapes_differ",
        ranks=2,
        outcome=CRASHES,
        cause="The ranks all-reduce tensors of different length. gloo ends the process that gets too much.",
        cured="The tensors have the same shape on all ranks.",
        cure={"[: 8 if rank == 0 else 4]": "[4 * rank : 4 * rank + 4]"},
        shows=[(RAISED, _CLOSED), (DIED, "8 vs 4")],
        served_by={"DETAIL": "TensorShape=[8]"},
    ),
    Patient(
        "float64_on_one_rank",
        ranks=2,
        outcome=CRASHES,
        cause="Rank 1 has made its tensor from numpy's numbers: float64. 8 and 4 are the bytes of one number.",
        cured="All ranks name the dtype.",
        cure={"torch.tensor([np.mean([1.0, 3.0])])": "torch.tensor([np.mean([1.0, 3.0])], dtype=torch.float32)"},
        shows=[(DIED, "8 vs 4"), (RAISED, _CLOSED)],
        served_by={"DETAIL": "TensorDtypes=Double"},
    ),
    Patient(
        "exception_on_one_rank",
        ranks=2,
        outcome=CRASHES,
        cause="Rank 1 has a label that is no digit, and raises. Rank 0 only sees that the connection is gone.",
        cured="The label is repaired. (To catch the exception and go on would be a skipped collective.)",
        cure={"torch.tensor([3, 7, 9]) + rank": "torch.tensor([3, 7, 8]) + rank"},
        shows=[(RAISED, _CLOSED), (RAISED, "ValueError: expected a digit, got 10")],
        served_by={"error file": "ValueError: expected a digit, got 10"},
    ),
    Patient(
        "unused_parameters",
        ranks=2,
        outcome=CRASHES,
        cause="DDP waits for a gradient of each parameter, and old_head is not used.",
        cured="What is not used is removed. (find_unused_parameters=True also works, and costs a search in each step.)",
        cure={', "old_head": torch.nn.Linear(2, 1)': ""},
        shows=[
            (RAISED, "Expected to have finished reduction in the prior iteration"),
            (RAISED, "Expected to have finished reduction in the prior iteration"),
        ],
        served_by={"INFO": "old_head.weight"},
    ),
    Patient(
        "killed_loader_worker",
        ranks=2,
        outcome=CRASHES,
        cause="A worker of rank 1's DataLoader is killed, as the system does when memory runs out.",
        cured="As many workers as there is memory for.",
        cure={"workers = 1 + rank": "workers = 1"},
        shows=[(RAISED, _CLOSED), (RAISED, "")],
        served_by={"error file": "error file"},
    ),
    Patient(
        "dead_rank",
        ranks=2,
        outcome=CRASHES,
        cause="Rank 1 keeps what it does not need, until the system kills it. It can't say so any more.",
        cured="It keeps nothing.",
        cure={"    kept.append(loss.sum().item())": "    kept = [loss.sum().item()]"},
        shows=[(RAISED, _CLOSED), (DIED, "SIGKILL")],
        served_by={"error file": "Connection "},
    ),
)

_SILENT = (
    Patient(
        "int32_on_one_rank",
        ranks=2,
        outcome=SILENT,
        cause="float32 and int32 have 4 bytes each. gloo adds them up as what each rank thinks that they are.",
        cured="All ranks name the dtype.",
        cure={"torch.ones(4).int()": "torch.ones(4)"},
        shows=[(ENDED, "rank 0: [1.0, 1.0, 1.0000001"), (ENDED, "rank 1: [1065353216, 1065353216, 1065353217")],
        served_by={"DETAIL": "TensorDtypes=Int"},
    ),
    Patient(
        "sum_against_max",
        ranks=2,
        outcome=SILENT,
        cause="Rank 0 asks for the sum, rank 1 for the maximum. Each rank combines a part of the tensor for both.",
        cured="All ranks ask for the sum.",
        cure={"dist.ReduceOp.MAX": "dist.ReduceOp.SUM"},
        shows=[(ENDED, "rank 0: losses [5.0, 5.0, 3.0, 4.0]"), (ENDED, "rank 1: losses [5.0, 5.0, 3.0, 4.0]")],
        served_by={},
    ),
    Patient(
        "other_layout",
        ranks=2,
        outcome=SILENT,
        cause="gloo sends numbers in the order in which they lie in memory, and on rank 1 they lie in another one.",
        cured="The tensor has the same layout on all ranks. (It may be changed after the broadcast.)",
        cure={".to(memory_format=torch.channels_last)": ""},
        shows=[
            (ENDED, "rank 0: kernel [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]"),
            (ENDED, "rank 1: kernel [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]"),
        ],
        served_by={},
    ),
    Patient(
        "summed_gradients",
        ranks=2,
        outcome=SILENT,
        cause="Gradients are summed over the ranks and not averaged: steps are twice as long as those of one process.",
        cured="The sum is divided by the number of ranks.",
        cure={
            "dist.all_reduce(parameter.grad)": (
                "dist.all_reduce(parameter.grad)\n        parameter.grad /= dist.get_world_size()"
            )
        },
        shows=[(ENDED, "rank 0: loss 2.65e+08"), (ENDED, "rank 1: loss 5.52e+08")],
        served_by={},
    ),
    Patient(
        "read_before_wait",
        ranks=2,
        outcome=SILENT,
        cause="The tensor is used before the all-reduce is over.",
        cured="Wait first.",
        cure={"used = gradient.clone()\nwork.wait()": "work.wait()\nused = gradient.clone()"},
        shows=[(ENDED, "1000 of 1000 numbers were used before they were summed"), (ENDED, "")],
        served_by={},
    ),
    Patient(
        "different_seeds",
        ranks=2,
        outcome=SILENT,
        cause="Each rank begins with weights of its own. Equal steps from different starts stay apart.",
        cured="All ranks begin with rank 0's weights, as DDP sees to.",
        cure={"torch.manual_seed(rank)": "torch.manual_seed(0)"},
        shows=[(ENDED, "rank 0: weights [0.763"), (ENDED, "rank 1: weights [1.132")],
        served_by={},
    ),
    Patient(
        "same_samples",
        ranks=2,
        outcome=SILENT,
        cause="Without a DistributedSampler every rank reads the whole data set, in the same order.",
        cured="A DistributedSampler deals the samples out.",
        cure={
            "batch_size=2, shuffle=True)": "batch_size=2, sampler=DistributedSampler(range(8)))",
            "import DataLoader": "import DataLoader, DistributedSampler",
        },
        shows=[(ENDED, "seen [2, 2, 2, 2, 2, 2, 2, 2] times"), (ENDED, "seen [2, 2, 2, 2, 2, 2, 2, 2] times")],
        served_by={},
    ),
    Patient(
        "not_in_the_group",
        ranks=4,
        outcome=SILENT,
        cause="All four ranks call the all-reduce of a group that has two of them. The others are left out.",
        cured="Each rank uses the group that it is in.",
        cure={"group=even": "group=even if rank % 2 == 0 else odd"},
        shows=[
            (ENDED, "rank 0: loss 2"),
            (ENDED, "does not belong to the given group"),
            (ENDED, "rank 2: loss 2"),
            (ENDED, "rank 3: loss 1"),
        ],
        served_by={},
    ),
)

PATIENTS: dict[str, Patient] = {patient.name: patient for patient in (*_HANGING, *_CRASHING, *_SILENT)}
