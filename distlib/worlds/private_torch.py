"""All private names of torch that this package uses. A new version of torch may take any of them away without notice.

Whoever needs another adds it here: `tests/test_private_names.py` says which is gone, and lets no other file use one.
"""

from __future__ import annotations

import datetime
import functools
import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed

_PASSES_ON = True  # torch's own functions come by `put_around`

# By torch, in two seconds, when a process builds its first optimizer.
IMPORTED_LATE = ("torch._dynamo",)

# Modes of the running thread (see simulated.torch_modes).
set_gradients = torch._C._set_grad_enabled
inference_mode = torch._C._InferenceMode
is_autocast_on = torch._C._is_any_autocast_enabled
count_function_modes = torch._C._len_torch_function_stack
function_mode = torch._C._get_function_stack_at
pop_function_mode = torch._C._pop_torch_function_stack
push_function_mode = torch._C._push_on_torch_function_stack

# The number of the backward pass that the caller is in; -1 outside of any.
current_backward = torch._C._current_graph_task_id

# Has a function called at the end of the backward pass that the caller is in. A hook can't know that it is the last,
# and torch has no public way; this is the one that its own FSDP uses.
at_end_of_backward = torch.autograd.Variable._execution_engine.queue_callback

# Where the ranks of torch.distributed have met.
default_store = torch.distributed.distributed_c10d._get_default_store

# torch's documentation describes it, under this name.
DispatchBase = torch.utils._python_dispatch.TorchDispatchMode

# What scaled_dot_product_attention is, forward and backward. torch has formulas of its FLOPs for GPUs alone.
ATTENTION_ON_CPU = (
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward,
)
ATTENTION_ON_GPU = (
    torch.ops.aten._scaled_dot_product_flash_attention,
    torch.ops.aten._scaled_dot_product_flash_attention_backward,
)

# What torch.compile has this thread do with each frame of Python that it begins; None outside of compiled functions.
compiler_of_frames = torch._C._dynamo.eval_frame.get_eval_frame_callback
set_compiler_of_frames = torch._C._dynamo.eval_frame.set_eval_frame

# What torch.set_printoptions has set.
PRINT_OPTIONS = torch._tensor_str.PRINT_OPTS

# Where clip_grad_norm_ scales gradients, when it has found their norm. However it was imported, it comes by here.
scale_gradients_by_norm = (torch.nn.utils.clip_grad, torch.nn.utils.clip_grad._clip_grads_with_norm_.__name__)

_c10d: Any = torch.distributed  # torch's own annotations leave out the process groups' methods


def gloo_group(store: Any, rank: int, world_size: int, host: str, timeout: datetime.timedelta) -> Any:
    """A process group of gloo with one thread, that listens on the address `host`."""
    options = _c10d.ProcessGroupGloo._Options()
    options._devices = [_c10d.ProcessGroupGloo.create_device(hostname=host)]
    options._threads = 1
    options._timeout = timeout
    return _c10d.ProcessGroupGloo(store, rank, world_size, options)


def nccl_group(store: Any, rank: int, world_size: int, timeout: datetime.timedelta) -> Any:
    """A process group of NCCL, whose operations may be under way for as long as `timeout`."""
    options = _c10d.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return _c10d.ProcessGroupNCCL(store, rank, world_size, options)


# The module in which torch.compile has its list of files that are not compiled.
RULES_OF_COMPILER = "torch._dynamo.trace_rules"


def leave_to_python(module: str) -> None:
    """Add a module, or a package with all that is in it, to that list. The compiler has been imported."""
    sys.modules[RULES_OF_COMPILER].add(module)


def has_hooks(tensor: torch.Tensor) -> bool:
    """Whether somebody has registered a hook on a tensor."""
    return bool(tensor._backward_hooks)


def times_written(tensor: torch.Tensor) -> int:
    """How often somebody has written into a tensor, or into a view of it."""
    return tensor._version


def found_infinite(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> dict[Any, torch.Tensor]:
    """By device: 1 if the scaler has found a gradient that is not finite, else 0, as `scaler.unscale_` has left it."""
    found: dict[Any, torch.Tensor] = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
    return found


def put_around(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Have a function of torch replaced by `wrapper`, which is given the function and then its arguments."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return wrapper(inner, *args, **kwargs)

    setattr(owner, name, replaced)


class UnmovableModule(torch.nn.Module):
    """A model whose parameters stay where they are: `to`, `cuda`, `half` and all others like them raise an error.

    They raise it also if they are called for a model that this one is a part of.

    Attributes:
        why_unmovable: the error's text.
    """

    why_unmovable: str

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(self.why_unmovable)


class DispatchMode(DispatchBase):
    """Sees each operation of the thread that entered it. torch's own also imports a compiler, which takes seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def recorded_calls() -> list[dict[str, Any]]:
    """What the flight recorder of this process has, for each collective call. TORCH_FR_BUFFER_SIZE switches it on.

    Nothing where torch has no such function.
    """
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    return list(json.loads(dump()).get("entries", [])) if dump else []


# ── process groups ───────────────────────────────────────────────────────────────────────────────────────────────────


class ProcessGroupsOfThread(threading.local):
    """What torch.distributed keeps of its process groups, for each thread apart: the attributes of its own `_World`.

    torch calls the variable that holds it an "experimental extension point to override it".
    """

    def __init__(self) -> None:
        self.default_pg: Any = None
        self.pg_map: dict[Any, Any] = {}
        self.pg_names: dict[Any, str] = {}
        self.pg_group_ranks: dict[Any, dict[int, int]] = {}
        self.pg_backend_config: dict[Any, str] = {}
        self.group_count = 0
        self.tags_to_pg: dict[str, list[Any]] = {}
        self.pg_to_tag: dict[Any, str] = {}
        self.pg_coalesce_state: dict[Any, list[Any]] = {}
        self.comms: list[Any] = []


def swap_process_groups(groups: object | None) -> object:
    """Have torch.distributed keep its process groups in `groups`; returns where it kept them before.

    Those that C++ finds by their name, as functional collectives do, are each thread's own while `groups` is a
    `ProcessGroupsOfThread`.
    """
    module: Any = torch.distributed.distributed_c10d
    before, module._world = module._world, groups
    functions: Any = torch._C._distributed_c10d
    functions._set_thread_isolation_mode(isinstance(groups, ProcessGroupsOfThread))
    return before


def add_device_module(kind: str, module: object) -> None:
    """Have torch know the module of a kind of device, as torch.cuda is that of "cuda". Once in a process."""
    torch._register_device_module(kind, module)


def allow_sharding_on(kind: str) -> None:
    """Have `fully_shard` train parameters on a device of this kind; it takes those on "meta" for forgotten ones."""
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    def check(inner: Callable[[Any], None], group: Any) -> None:
        if group.device.type != kind:
            inner(group)

    put_around(FSDPParamGroup, FSDPParamGroup._validate_no_meta_params.__name__, check)


def allow_pipelines_on(kind: str) -> bool:
    """Have pipeline stages on a device of this kind agree on shapes by numbers that lie on the CPU, with contents.

    False if torch.distributed.pipelining has not been imported: nothing is done then. Versions of torch that agree on
    shapes in another way, as 2.8 does, need tensors with contents.
    """
    module = sys.modules.get("torch.distributed.pipelining.stage")
    if module is None:
        return False

    def on_cpu(inner: Callable[..., Any], stage: Any, *args: Any, **kwargs: Any) -> Any:
        device = stage.device
        stage.device = torch.device("cpu") if torch.device(device).type == kind else device  # it may be given as a text
        try:
            return inner(stage, *args, **kwargs)
        finally:
            stage.device = device

    for name in ("_warmup_forward_vote", "_warmup_backward_result", "_recv_meta", "_send_meta"):
        if hasattr(module.PipelineStage, name):
            put_around(module.PipelineStage, name, on_cpu)
    return True


_NOT_META = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)  # under it torch has what is for every device but "meta"


class CollectivesOnMeta:
    """While it lasts, torch's functional collectives ask their process group also for tensors on the meta device.

    Else they only say there which shape the result has. DTensor asks for that, too, with a FakeTensor; so it stays.

    Args:
        is_rank: whether the thread that calls is a rank, so that there is a group.
    """

    def __init__(self, is_rank: Callable[[], bool]) -> None:
        from torch.distributed import _functional_collectives as shapes

        shape_of: dict[str, Any] = {
            "all_reduce": shapes._all_reduce_meta,
            "all_reduce_": shapes._all_reduce__meta,
            "all_reduce_coalesced": shapes._all_reduce_coalesced_meta,
            "all_reduce_coalesced_": shapes._all_reduce_coalesced__meta,
            "all_gather_into_tensor": shapes._all_gather_into_tensor_native_meta,
            "all_gather_into_tensor_coalesced": shapes._all_gather_into_tensor_coalesced_native_meta,
            "reduce_scatter_tensor": shapes._reduce_scatter_tensor_native_meta,
            "reduce_scatter_tensor_coalesced": shapes._reduce_scatter_tensor_coalesced_native_meta,
            "all_to_all_single": shapes._all_to_all_single_meta,
            "broadcast": shapes._broadcast_meta,
            "broadcast_": shapes._broadcast__meta,
            "wait_tensor": shapes._wait_tensor_meta,
        }
        self._library = torch.library.Library("_c10d_functional", "IMPL")
        for name, shape in shape_of.items():
            operation: Any = getattr(torch.ops._c10d_functional, name).default
            self._put(name, partial(operation.redispatch, _NOT_META), shape, is_rank)
        if hasattr(shapes, "_wrap_tensor_autograd"):  # since torch 2.13: what waits when its result is used
            self._put("_wrap_tensor_autograd", shapes.AsyncCollectiveTensor, torch.empty_like, is_rank)

    def _put(self, name: str, asks: Callable[..., Any], shape: Callable[..., Any], is_rank: Callable[[], bool]) -> None:
        def call(given: Any, *args: Any) -> Any:
            first = given[0] if isinstance(given, list) else given
            return (asks if is_rank() and type(first).__name__ != "FakeTensor" else shape)(given, *args)

        self._library.impl(name, call, "Meta", allow_override=True)

    def end(self) -> None:
        """torch's own are back."""
        self._library._destroy()


class ShapesInferredOnce:
    """From now on DTensor infers the shape of a result once in the process; by itself it does so once in each thread.

    Ranks that are threads run the same operations. What it finds is the same for all of them: shape, strides, dtype.
    """

    def __init__(self) -> None:
        tensor: Any = sys.modules.get("torch.distributed.tensor")  # where nobody has imported it there is no DTensor
        self._propagator: Any = tensor and tensor.DTensor._op_dispatcher.sharding_propagator
        if tensor is not None:
            infer = self._propagator._propagate_tensor_meta_non_cached
            self._propagator._propagate_tensor_meta_non_cached = functools.lru_cache(infer)

    def end(self) -> None:
        """Let it be as before."""
        if self._propagator is not None:
            del self._propagator._propagate_tensor_meta_non_cached  # what is left is the method of its class


class _SeenCall:
    """Stands for an operation of torch.ops.c10d that has been called, where a mode is told of it."""

    def __init__(self, name: str) -> None:
        self._overloadpacket = getattr(torch.ops.c10d, name)

    def __call__(self) -> None:
        """It has no result: torch's own writes into its arguments."""


def tell_comm_debug_modes(name: str) -> None:
    """Have each CommDebugMode that this thread is in count a call of torch.ops.c10d.

    Such a mode counts what passes torch's dispatcher. The calls of a process group written in Python don't.
    """
    if torch._C._len_torch_dispatch_stack() == 0 or "torch.distributed.tensor.debug" not in sys.modules:
        return
    counter = sys.modules["torch.distributed.tensor.debug"].CommDebugMode
    for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
        if isinstance(mode, counter):
            mode.__torch_dispatch__(_SeenCall(name), ())


class ProcessGroupBase(_c10d.ProcessGroup):
    """A process group written in Python, under all names by which torch calls its methods.

    A subclass has the methods of torch 2.13; some have other names in C++, and had them in Python until torch 2.12.
    """

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._own_names = {"group": "", "description": ""}

    def _allgather_base(self, *given: Any) -> Any:
        return self.all_gather_single(*given)

    def allgather_into_tensor_coalesced(self, *given: Any) -> Any:
        return self.all_gather_single_coalesced(*given)

    def _reduce_scatter_base(self, *given: Any) -> Any:
        return self.reduce_scatter_single(*given)

    def reduce_scatter_tensor_coalesced(self, *given: Any) -> Any:
        return self.reduce_scatter_single_coalesced(*given)

    def alltoall_base(self, *given: Any) -> Any:
        return self.all_to_all_single(*given)

    def getGroupName(self) -> str:
        return self._own_names["group"]

    def setGroupName(self, name: str) -> None:
        self._own_names["group"] = name

    def getGroupDesc(self) -> str:
        return self._own_names["description"]

    def setGroupDesc(self, description: str) -> None:
        self._own_names["description"] = description

    @property
    def group_name(self) -> str:
        return self._own_names["group"]

    @property
    def group_desc(self) -> str:
        return self._own_names["description"]

    @property
    def _device_types(self) -> list[torch.device]:
        return self.device_types()

    def _start_coalescing(self, device: object = None) -> None:
        self.start_coalescing()

    def _end_coalescing(self, device: object = None) -> Any:
        return self.end_coalescing()
