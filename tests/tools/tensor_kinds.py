"""What may meet a collective, a send or a receive: each kind of thing works, or gets one sentence.

`EXPECTED` says of each kind what comes of it in every world: WORKS, or a piece of the sentence.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch
from torch.autograd import forward_ad

from distlib import Communicator, ReduceOp, SimulatedWorld, all_reduce, all_to_all, broadcast, gather

WORKS = "works"
EXPECTED: dict[str, str] = {}  # what comes of a kind
SUMS: dict[str, str] = {}  # what comes of an all-reduce, where the kind works otherwise
_MAKERS: dict[str, Callable[[], Any]] = {}


def _kind(name: str, expected: str, maker: Callable[[], Any], summed: str | None = None) -> None:
    EXPECTED[name], _MAKERS[name], SUMS[name] = expected, maker, summed or expected


class _Named(torch.Tensor):
    """A subclass that only has a name."""


class _Wrapping(torch.Tensor):
    """A subclass whose numbers lie in another tensor."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> _Wrapping:
        made: _Wrapping = torch.Tensor._make_wrapper_subclass(cls, inner.shape)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner = [each.inner if isinstance(each, cls) else each for each in args]
        return func(*inner, **(kwargs or {}))


def _inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2)


def _freed() -> torch.Tensor:
    tensor = torch.ones(2)
    tensor.untyped_storage().resize_(0)
    return tensor


def _sparse(layout: str) -> torch.Tensor:
    blocks = [(1, 1)] * (layout == "sparse_bsr")
    return getattr(torch.eye(2), f"to_{layout}")(*blocks)  # type: ignore[no-any-return]


def _fake() -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2)


def _dtensor() -> torch.Tensor:
    """Of a mesh of this rank alone: a collective sees only the class."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Replicate

    torch.distributed.init_process_group("fake", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        return DTensor.from_local(torch.ones(2), DeviceMesh("cpu", [0]), [Replicate()], run_check=False)
    finally:  # else later tests in this process, or on these ranks, would have it
        torch.distributed.destroy_process_group()


def _jax() -> Any:
    import jax.numpy

    return jax.numpy.ones(2)


def _on_meta() -> torch.Tensor:
    return torch.ones(2, device="meta")


# dense: works
_kind("float32", WORKS, lambda: torch.ones(3, 2))
for _dtype in (torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int8, torch.uint8, torch.int64):
    _kind(str(_dtype), WORKS, partial(torch.ones, 3, dtype=_dtype))
_kind("one number", WORKS, lambda: torch.tensor(1.0))
_kind("empty", WORKS, lambda: torch.empty(0))
_kind("every second element", WORKS, lambda: torch.ones(6)[::2])
_kind("transposed", WORKS, lambda: torch.ones(2, 3).T)
_kind("conjugate", WORKS, lambda: torch.ones(2, dtype=torch.complex64).conj())
_kind("negative view", WORKS, lambda: torch.full((2,), -1j, dtype=torch.complex64).conj().imag)
_kind("parameter", WORKS, lambda: torch.nn.Parameter(torch.ones(2)))
_kind("subclass with a name", WORKS, lambda: torch.ones(2).as_subclass(_Named))
_kind("inference tensor", WORKS, _inference)

# dense, and torch has no sum of them
_kind("bool", WORKS, lambda: torch.ones(2, dtype=torch.bool), "torch.bool has no sum")
for _dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64):
    _kind(str(_dtype), WORKS, partial(torch.ones(2).to, _dtype), f"no ReduceOp.SUM for {_dtype} on cpu")

# gets a sentence
for _layout in ("sparse", "sparse_csr", "sparse_csc", "sparse_bsr"):
    _kind(_layout, "with tensor.to_dense()", partial(_sparse, _layout))
_kind("mkldnn", "with tensor.to_dense()", lambda: torch.ones(2).to_mkldnn())
_kind("quantized", "tensor.dequantize()", lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))
for _name, _options in (("nested", {}), ("jagged", {"layout": torch.jagged})):
    _parts = [torch.ones(2), torch.ones(3)]
    _kind(_name, "for each of tensor.unbind()", partial(torch.nested.nested_tensor, _parts, **_options))
_kind("masked", "tensor.get_data()", lambda: torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])))
_kind("fake", "outside FakeTensorMode", _fake)
_kind("DTensor", "tensor.to_local()", _dtensor)
_kind("wrapping subclass", "a _Wrapping, which keeps its numbers in other tensors", lambda: _Wrapping(torch.ones(2)))
_kind("lazy", "call the model on a batch first", lambda: torch.nn.LazyLinear(2).weight)
_kind("freed", "whose memory has been freed", _freed)
if hasattr(torch.Tensor, "has_names"):
    _kind("named", "tensor.rename(None)", lambda: torch.ones(2, names=("a",)))  # type: ignore[call-overload]
_kind("list", "torch.tensor(…)", lambda: [1.0])
_kind("number", "torch.tensor(…)", lambda: 1.0)
_kind("None", "got None", lambda: None)
_kind("numpy array", "torch.from_numpy(array)", lambda: numpy.ones(2))
_kind("module", "model.parameters()", lambda: torch.nn.Linear(1, 1))
if importlib.util.find_spec("jax"):
    _kind("jax array", "expected a torch.Tensor", _jax)

# gets a sentence where it is written
WRITTEN = {"expanded": ("share memory", lambda: torch.ones(1).expand(2))}
# works in simulated time only
META = "meta, which has a shape and no numbers"


def what_comes(comm: Communicator, names: list[str]) -> dict[str, dict[str, str]]:
    """By the kind, and by what was called with it: "works", or the error's text. Run on two ranks."""
    return {name: _of_kind(comm, _MAKERS[name]) for name in names} | {
        "expanded": {"all_reduce": _said(lambda: all_reduce(comm, WRITTEN["expanded"][1]()))},
        "meta": _of_kind(comm, _on_meta),
        "torch.func": _in_torch_func(comm),
    }


def _of_kind(comm: Communicator, make: Callable[[], Any]) -> dict[str, str]:
    other = 1 - comm.rank
    calls: dict[str, Callable[[], object]] = {
        "send": lambda: comm.send(make(), 1) if comm.rank == 0 else comm.recv(make(), 0),
        "exchange": lambda: comm.exchange(make(), other, make(), other),
        "isend": lambda: [work.wait() for work in (comm.irecv(make(), other), comm.isend(make(), other))],
        "broadcast": lambda: broadcast(comm, make()),
        "gather": lambda: gather(comm, make()),
        "all_to_all": lambda: all_to_all(comm, [make(), make()], [make(), make()]),
        "all_reduce": lambda: _is_sum(comm, make()),
        "all_reduce, in the background": lambda: all_reduce(comm, make(), async_op=True).wait(),  # type: ignore[union-attr]
    }
    return {name: _said(call) for name, call in calls.items()}


def _is_sum(comm: Communicator, tensor: torch.Tensor) -> None:
    all_reduce(comm, tensor, ReduceOp.SUM)
    assert tensor.is_meta or bool((tensor == 2).all()), tensor


def _in_torch_func(comm: Communicator) -> dict[str, str]:
    def step(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor * 2
        all_reduce(comm, changed)
        return changed

    x = torch.ones(2)
    with forward_ad.dual_level():
        tangent = _said(lambda: all_reduce(comm, forward_ad.make_dual(x.clone(), x)))
    return {
        "grad": _said(lambda: torch.func.grad(lambda tensor: step(tensor).sum())(x)),
        "vmap": _said(lambda: torch.func.vmap(step)(torch.ones(3, 2))),
        "jvp": _said(lambda: torch.func.jvp(step, (x,), (x,))),
        "a tangent": tangent,
    }


def _said(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return WORKS


def say_all(comm: Communicator, world: str) -> None:
    """Started on two ranks by something else: prints what is not as expected."""
    print("wrong:", unexpected(what_comes(comm, list(EXPECTED)), world))


def unexpected(came: dict[str, dict[str, str]], world: str) -> list[str]:
    """What has come and was not expected. `world`: "real" or "simulated"."""
    wrong = []
    for kind, texts in came.items():
        for call, text in texts.items():
            right = _expected(kind, call, world)
            if not (text == WORKS if right == WORKS else right in text and "\n" not in text and "Error: " in text):
                wrong.append(f"{kind}, {call}: {text!r} instead of {right!r}")
    return wrong


def _expected(kind: str, call: str, world: str) -> str:
    if kind in WRITTEN:
        return WRITTEN[kind][0]
    if kind == "meta":
        return WORKS if world == "simulated" else META
    if kind == "torch.func":
        return (
            "forward_ad.unpack_dual"
            if call == "a tangent"
            else "all_reduce expected a dense tensor, got a tensor inside torch.func"
        )
    return SUMS[kind] if call.startswith("all_reduce") else EXPECTED[kind]


if __name__ == "__main__":
    for rank, found in enumerate(SimulatedWorld(2).run(what_comes, list(EXPECTED))):
        print(rank, *unexpected(found, "simulated"), sep="\n")
