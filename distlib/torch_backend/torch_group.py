"""The process group: one method for each call that torch makes of it. See torch/csrc/distributed/c10d/ProcessGroup.hpp.

A method reads torch's arguments, announces the call, and begins what `calls` has for it: at once where the caller waits
for it anyway, else on the communication thread. All mistakes that one rank can see for itself are raised here, at the
student's line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from distlib.collectives.reduction import check_op
from distlib.communicator import AllOf, Communicator, DoneWork
from distlib.tensor_kinds import check_sendable
from distlib.torch_backend import streams, torch_calls as calls
from distlib.torch_backend.arguments import OPERATIONS, call_text, is_asynchronous, op_of, root_of
from distlib.torch_backend.monitored import monitored_barrier, time_limit
from distlib.torch_backend.works import CallWork, Underway
from distlib.worlds.private_torch import ProcessGroupBase, tell_comm_debug_modes

_PASSES_ON = True  # see worlds.call_site

NAME = "distlib"
_NAME_SHOWN = 8  # letters of a group's name: torch makes some of them 40 long
Tensors = Sequence[torch.Tensor]


class DistlibGroup(ProcessGroupBase):
    """A process group of torch over a communicator.

    Args:
        comm: of the ranks of this group, in its order.
        is_default: whether it has all ranks, as `init_process_group` makes it.
        all_reduce: the algorithm of `all_reduce` and of what torch builds from it: (comm, flat tensor, op), in place.
    """

    def __init__(self, comm: Communicator, all_reduce: calls.AllReduce, is_default: bool = False) -> None:
        super().__init__(comm.rank, comm.world_size)
        self.comm = comm
        self.is_default = is_default
        self._all_reduce = all_reduce
        self._together: list[CallWork] | None = None

    # ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────

    def allreduce(self, tensors: Any, opts: Any = None) -> CallWork:
        """`torch.distributed.all_reduce`, and what DDP calls for its buckets."""
        return self._reduce_all("all_reduce", _listed(tensors), opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> CallWork:
        """Several all-reduces as one call."""
        return self._reduce_all("all_reduce_coalesced", _listed(tensors), opts)

    def reduce(self, tensors: Any, opts: Any = None) -> CallWork:
        """`torch.distributed.reduce`: the root gets the result."""
        (tensor,) = _listed(tensors)
        op, root = op_of("reduce", opts), root_of(opts)
        check_sendable("reduce", tensor, written=True)
        check_op("reduce", op, tensor)
        text = call_text("reduce", [tensor], dst=root, op=op)
        return self._begin(text, partial(calls.reduce, tensor=tensor, root=root, op=op), [tensor], opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        """`torch.distributed.reduce_scatter`: a list of inputs, one for each rank."""
        (output,), (pieces,) = _listed(outputs), _nested(inputs)
        return self._reduce_and_scatter("reduce_scatter", [output], [pieces], opts)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> CallWork:
        """`torch.distributed.reduce_scatter_tensor`: one input, cut into as many parts as there are ranks."""
        pieces = self._cut("reduce_scatter_tensor", input, output)
        return self._reduce_and_scatter("reduce_scatter_tensor", [output], [pieces], opts, cut=True)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> CallWork:
        """Several of these as one call."""
        name = "reduce_scatter_tensor_coalesced"
        pieces = [self._cut(name, input, output) for output, input in zip(outputs, inputs, strict=True)]
        return self._reduce_and_scatter(name, list(outputs), pieces, opts, cut=True)

    # ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────

    def broadcast(self, tensors: Any, opts: Any = None) -> CallWork:
        """`torch.distributed.broadcast`: the tensors of the root for all."""
        given, root = _listed(tensors), root_of(opts)
        for tensor in given:
            check_sendable("broadcast", tensor, written=self.comm.rank != root)
        text = call_text("broadcast", given, src=root)
        return self._begin(text, partial(calls.broadcast, tensors=given, root=root), given, opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        """`torch.distributed.all_gather`: a list of outputs, one for each rank."""
        return self._gather_all("all_gather", _nested(outputs), _listed(inputs), opts)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> CallWork:
        """`torch.distributed.all_gather_coalesced`: outputs[r][k] is input k of rank r."""
        pieces = [list(each) for each in zip(*outputs, strict=True)]
        return self._gather_all("all_gather_coalesced", pieces, list(inputs), opts)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> CallWork:
        """`torch.distributed.all_gather_into_tensor`: the parts one after the other in one output."""
        name = "all_gather_into_tensor"
        return self._gather_all(name, [self._cut(name, output, input)], [input], opts, cut=True)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> CallWork:
        """Several of these as one call."""
        name = "all_gather_into_tensor_coalesced"
        pieces = [self._cut(name, output, input) for output, input in zip(outputs, inputs, strict=True)]
        return self._gather_all(name, pieces, list(inputs), opts, cut=True)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        """`torch.distributed.gather`: the root has a list of outputs, one for each rank."""
        (own,), root = _listed(inputs), root_of(opts)
        pieces = _nested(outputs)[0] if outputs else []
        self._check_pieces("gather", pieces, self.comm.rank == root, written=True)
        check_sendable("gather", own)
        run = partial(calls.gather, pieces=pieces, own=own, root=root)
        return self._begin(call_text("gather", dst=root), run, pieces, opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> CallWork:
        """`torch.distributed.scatter`: the root has a list of inputs, one for each rank."""
        (output,), root = _listed(outputs), root_of(opts)
        pieces = _nested(inputs)[0] if inputs else []
        self._check_pieces("scatter", pieces, self.comm.rank == root)
        check_sendable("scatter", output, written=True)
        run = partial(calls.scatter, output=output.data, pieces=pieces, root=root)
        return self._begin(call_text("scatter", src=root), run, [output], opts)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> CallWork:
        """`torch.distributed.all_to_all`: a list for each rank on both sides."""
        self._check_pieces("all_to_all", outputs, True, written=True)
        self._check_pieces("all_to_all", inputs, True)
        run = partial(calls.all_to_all, outputs=[each.data for each in outputs], inputs=inputs)
        return self._begin(call_text("all_to_all"), run, outputs, opts)

    def all_to_all_single(
        self, output: torch.Tensor, input: torch.Tensor, output_sizes: Any, input_sizes: Any, opts: Any = None
    ) -> CallWork:
        """`torch.distributed.all_to_all_single`: both sides cut along the first dimension, evenly or as given."""
        outputs = self._split("all_to_all_single", "output", output, output_sizes)
        inputs = self._split("all_to_all_single", "input", input, input_sizes)
        run = partial(calls.all_to_all, outputs=outputs, inputs=inputs)
        return self._begin(call_text("all_to_all_single"), run, [output], opts)

    # ── messages, and meeting ────────────────────────────────────────────────────────────────────────────────────

    def send(self, tensors: Tensors, dst: int, tag: int) -> CallWork:
        """What `torch.distributed.send` and `isend` call."""
        (tensor,) = tensors
        return self._noted(CallWork(self.comm.isend(tensor.detach(), dst, tag), [tensor]))

    def recv(self, tensors: Tensors, src: int | None, tag: int) -> CallWork:
        """What `torch.distributed.recv` and `irecv` call."""
        (tensor,) = tensors
        return self._noted(CallWork(self.comm.irecv(tensor.data, src, tag), [tensor]))

    def recv_anysource(self, tensors: Tensors, tag: int) -> CallWork:
        """`torch.distributed.recv` without a source."""
        return self.recv(tensors, None, tag)

    def barrier(self, opts: Any = None) -> CallWork:
        """`torch.distributed.barrier`: nobody passes before all are there."""
        if not is_asynchronous(opts):
            self.comm.barrier()
            return CallWork(DoneWork(self.comm.rank), [])
        progress = Underway(lambda comm: comm.barrier())
        return CallWork(self.comm.start(progress.run), [], progress)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """`torch.distributed.monitored_barrier`: a barrier with a time limit; see monitored."""
        monitored_barrier(self.comm, time_limit(timeout), wait_all_ranks)

    # ── what torch asks of a group ───────────────────────────────────────────────────────────────────────────────

    def getBackendName(self) -> str:
        """As torch knows it."""
        return NAME

    name = getBackendName

    def getSize(self) -> int:
        """How many ranks the group has."""
        return self.comm.world_size

    def getRank(self) -> int:
        """This rank's number in the group."""
        return self.comm.rank

    def device_types(self) -> list[torch.device]:
        """Where the tensors may lie."""
        return [torch.device(kind) for kind in dict.fromkeys(["cpu", self.comm.device.type])]

    def shutdown(self) -> None:
        """Nothing to be closed: the messages are the communicator's."""

    abort = shutdown

    def start_coalescing(self) -> None:
        """What is begun from now on is waited for as one; see `end_coalescing`."""
        self._together = []

    def end_coalescing(self) -> CallWork:
        """One handle for all that was begun since `start_coalescing`."""
        begun, self._together = self._together or [], None
        return CallWork(AllOf(0, begun), [])

    def __repr__(self) -> str:
        return f"<DistlibGroup: rank {self.comm.rank} of {self.comm.world_size}>"

    # ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, text: str, run: Callable[[Communicator], None], result: Tensors, opts: Any) -> CallWork:
        """Announce a call and begin it; where the caller waits for it anyway, in the caller's own thread."""
        tell_comm_debug_modes(OPERATIONS[text.partition("(")[0]])
        comm = self.comm.within(text.removesuffix(")") + self._in_group())
        if streams.is_other() and result and result[0].is_meta:
            streams.current_stream().launch(comm, partial(comm.run_collective, run))
            return CallWork(DoneWork(self.comm.rank), result)
        if not is_asynchronous(opts):
            comm.run_collective(run)
            return CallWork(DoneWork(self.comm.rank), result)
        progress = Underway(run)
        return self._noted(CallWork(comm.start(progress.run), result, progress))

    def _in_group(self) -> str:
        """How the text of a call ends: with the group's name, if that is not the default one."""
        description, name = self.getGroupDesc(), self.getGroupName()
        if self.is_default:
            return ")"
        shown = description if description not in ("", "undefined") else name[:_NAME_SHOWN]
        return f", group={shown})"

    def _noted(self, work: CallWork) -> CallWork:
        if self._together is not None:
            self._together.append(work)
        return work

    def _reduce_all(self, name: str, tensors: list[torch.Tensor], opts: Any) -> CallWork:
        op = op_of(name, opts)
        if len(tensors) == 1 and tensors[0].layout is torch.sparse_coo:
            text = call_text(name, tensors, op=op)
            return self._begin(text, partial(calls.all_reduce_sparse, tensor=tensors[0]), tensors, opts)
        for tensor in tensors:
            check_sendable(name, tensor, written=True)
            check_op(name, op, tensor)
        run = partial(calls.all_reduce, tensors=tensors, op=op, algorithm=self._all_reduce)
        return self._begin(call_text(name, tensors, op=op), run, tensors, opts)

    def _reduce_and_scatter(
        self, name: str, outputs: list[torch.Tensor], pieces: Sequence[Tensors], opts: Any, cut: bool = False
    ) -> CallWork:
        """`cut`: the pieces are those of `_cut`."""
        op = op_of(name, opts)
        for output, inputs in zip(outputs, pieces, strict=True):
            if not cut:
                self._check_pieces(name, inputs, True)
            check_sendable(name, output, written=True)
            check_op(name, op, output)

        def run(comm: Communicator) -> None:
            for output, inputs in zip(outputs, pieces, strict=True):
                calls.reduce_scatter(comm, output, inputs, op)

        return self._begin(self._text_of(name, pieces, cut, op=op), run, outputs, opts)

    def _gather_all(
        self, name: str, pieces: Sequence[Tensors], inputs: list[torch.Tensor], opts: Any, cut: bool = False
    ) -> CallWork:
        """`cut`: the pieces are those of `_cut`."""
        for outputs, own in zip(pieces, inputs, strict=True):
            if not cut:
                self._check_pieces(name, outputs, True, written=True)
            check_sendable(name, own)

        def run(comm: Communicator) -> None:
            for outputs, own in zip(pieces, inputs, strict=True):
                calls.all_gather(comm, outputs, own)

        return self._begin(self._text_of(name, pieces, cut), run, [*_flat(pieces)], opts)

    def _text_of(self, name: str, pieces: Sequence[Tensors], cut: bool, **arguments: Any) -> str:
        if cut:  # one stands for all
            return call_text(name, [each[0] for each in pieces], times=self.comm.world_size, **arguments)
        return call_text(name, _flat(pieces), **arguments)

    def _cut(self, name: str, whole: torch.Tensor, part: torch.Tensor) -> list[torch.Tensor]:
        """A tensor for all ranks as pieces of equal size, one for each rank. Raises ValueError if it isn't so large.

        On the meta device the pieces are one and the same, since none has contents.
        """
        size = self.comm.world_size
        if whole.numel() != size * part.numel():
            raise ValueError(
                f"{name} expected a whole of {size} × {part.numel()} elements for {size} ranks, got {whole.numel()}"
            )
        check_sendable(name, whole)
        if not whole.is_contiguous():
            raise ValueError(f"{name} expected a contiguous tensor for all ranks: hand over tensor.contiguous()")
        if whole.is_meta:
            return [part.detach().view(-1)] * size
        return list(whole.detach().view(size, -1).unbind()) if size else []

    def _split(self, name: str, side: str, tensor: torch.Tensor, sizes: Sequence[int] | None) -> list[torch.Tensor]:
        """A tensor cut along its first dimension, one piece for each rank."""
        size, rows = self.comm.world_size, tensor.shape[0] if tensor.ndim else 0
        check_sendable(name, tensor, written=side == "output")
        if not sizes and rows % size:
            raise ValueError(
                f"{name} expected {side} to have a multiple of {size} rows, one part for each rank, got {rows}"
            )
        if sizes and (len(sizes) != size or sum(sizes) != rows):
            raise ValueError(f"{name} expected {size} {side} sizes that add up to {rows} rows, got {list(sizes)}")
        return list(tensor.data.split(list(sizes) if sizes else [rows // size] * size))

    def _check_pieces(self, name: str, pieces: Tensors, wanted: bool, written: bool = False) -> None:
        if wanted and len(pieces) != self.comm.world_size:
            raise ValueError(
                f"{name} expected a list of {self.comm.world_size} tensors, one for each rank, got {len(pieces)}"
            )
        for index, piece in enumerate(pieces):
            check_sendable(name, piece, f" at place {index} of its list", written=written)


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _nested(tensors: Any) -> list[list[torch.Tensor]]:
    """A list of lists of tensors, also where only the inner one was given."""
    return [list(tensors)] if isinstance(tensors[0], torch.Tensor) else [list(each) for each in tensors]


def _flat(pieces: Sequence[Tensors]) -> list[torch.Tensor]:
    return [tensor for each in pieces for tensor in each]
