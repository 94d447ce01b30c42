"""JAX itself, in one process of its own: it starts threads, and nothing that may fork should have it loaded."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import json
import jax
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
from jax import shard_map
from jax.sharding import Mesh, PartitionSpec as P
from distlib.draw.charts.placements import pieces
from distlib.frameworks.jax_collectives import bytes_sent, collectives, counted
from distlib.frameworks.jax_ring import ring_all_reduce

found = {}
for devices in (1, 2, 3, 8):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("ranks",))
    rows = np.arange(devices * 24, dtype=np.float32).reshape(devices, 24) % 7
    for unroll in (True, False):
        def ring(mine):
            return ring_all_reduce(mine, "ranks", unroll=unroll)
        mapped = jax.jit(shard_map(ring, mesh=mesh, in_specs=P("ranks"), out_specs=P("ranks")))
        compiled = mapped.lower(rows).compile()
        found[f"{devices} {unroll}"] = {
            "equal": bool((np.asarray(mapped(rows)) == rows.sum(axis=0)).all()),
            "under vmap": bool((np.asarray(jax.vmap(ring, axis_name="ranks")(rows)) == rows.sum(axis=0)).all()),
            "counts": counted(collectives(compiled)),
            "bytes": bytes_sent(collectives(compiled)),
        }
try:
    jax.vmap(lambda mine: ring_all_reduce(mine, "ranks"), axis_name="ranks")(np.zeros((4, 10)))
except ValueError as error:
    found["error"] = str(error)
cut = jax.device_put(np.zeros((6, 4)), jax.NamedSharding(Mesh(np.array(jax.devices()[:2]), "x"), P(None, "x")))
found["pieces"] = sorted(map(str, pieces(cut).items()))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> Any:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
@pytest.mark.parametrize("unroll", [True, False])
def test_the_ring_sums_in_as_many_steps_and_bytes_as_ours(found: Any, devices: int, unroll: bool) -> None:
    from distlib.network import traffic

    ours = traffic.ring_all_reduce(devices, 24, 4)
    seen = found[f"{devices} {unroll}"]
    assert seen["equal"] and seen["under vmap"]
    assert seen["counts"].get("collective-permute", 0) == ours.rounds
    assert seen["bytes"] == ours.nbytes[0]
    assert set(seen["counts"]) <= {"collective-permute"}


def test_a_length_that_does_not_divide_is_refused(found: Any) -> None:
    assert found["error"] == "expected a number of elements that 4 devices divide, got 10"


def test_the_picture_reads_pieces_of_a_real_array(found: Any) -> None:
    assert found["pieces"] == ["(((0, 6), (0, 2)), [0])", "(((0, 6), (2, 4)), [1])"]
