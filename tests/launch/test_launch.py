"""Ranks that something else has started, on nodes n1 and n2, which are both this machine."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed

from distlib.launch.head import own_addresses
from tests.tools.launched import Launched, LauncherForkServer, slurm_variables, torchrun_variables

SCRIPT = Path(__file__).parent / "rank_functions.py"


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LauncherForkServer]:
    with LauncherForkServer(tmp_path_factory.mktemp("launched")) as launcher:
        yield launcher


def of(function: str) -> str:
    return f"{SCRIPT}:{function}"


def gone(launched: Launched) -> bool:
    """Whether nothing is left: no process, no file."""
    return (launched.left, launched.files) == (0, [])


# What works


def test_the_same_function_runs_on_two_nodes(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("add_up"), "3", "100_000", "algorithm=ring")
    assert launched.err == ""
    assert launched.lines() == [f"[rank {rank}] [15, 15]" for rank in range(4)]
    assert launched.statuses == [0] * 4
    assert gone(launched)


def test_arguments_and_output(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("show"), "7", "digits", "rate=0.5", "deep", nodes=1)
    assert launched.lines() == [f"[rank {rank}] rank {rank} of 2: 7 digits deep {{'rate': 0.5}}" for rank in (0, 1)]
    assert sorted(launched.err.splitlines()) == ["[rank 0] to stderr", "[rank 1] to stderr"]


def test_groups_and_torchs_own_collectives(launcher: LauncherForkServer) -> None:
    halves = launcher.srun(of("split"))
    assert halves.lines() == sorted(f"[rank {rank}] {each}" for rank in range(4) for each in ((2, 4)[rank % 2], 6))
    torchs = launcher.srun(of("with_torch"), tasks=1)
    assert torchs.lines() == [f"[rank {rank}] [1.0, 1.0, 1.0]" for rank in range(2)]


def test_one_rank(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("add_up"), "5", nodes=1, tasks=1)
    assert (launched.out, launched.err, launched.statuses) == ("[rank 0] [1]\n", "", [0])


@pytest.mark.parametrize("machines", ["one", "several"])
def test_ranks_meet_that_torchrun_has_started_again_a_different_number_of_times(
    launcher: LauncherForkServer, machines: str
) -> None:
    """Each agent counts its own restarts, and the store still has the word of the first start.

    On one machine they meet in the home. On several the store is needed, as for an address that is not loopback's.
    """
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    word = '{"hosts": ["127.0.0.1"], "port": 9, "key": "00", "node": "n1"}'
    public = torch.distributed.PrefixStore("distlib-two", store)
    public.set("head", word)
    address = "127.0.0.1" if machines == "one" else own_addresses()[0]
    variables = [
        torchrun_variables(rank, 2, store.port, address) | {"TORCHELASTIC_RESTART_COUNT": "10"[rank]} for rank in (0, 1)
    ]
    launched = launcher.start(of("add_up"), "5", variables=variables)
    assert (launched.lines(), launched.err) == (["[rank 0] [3]", "[rank 1] [3]"], "")
    assert launched.statuses == [0, 0]
    assert gone(launched)
    assert (public.get("head") == word.encode()) == (machines == "one")


def test_nodes_whose_secrets_differ_say_what_to_do(launcher: LauncherForkServer, tmp_path: Path) -> None:
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(b"of the other node")
    first, second = (torchrun_variables(rank, 2, store.port, own_addresses()[0]) for rank in (0, 1))
    variables = [first, second | {"DISTLIB_SECRET_FILE": str(secret)}]
    launched = launcher.start("--patience", "3", of("add_up"), "5", variables=variables)
    assert f"Was rank 0 started, and is {secret} the same file on all nodes? Where they don't share" in launched.err
    assert launched.statuses == [1, 2]


def test_ranks_meet_where_an_earlier_start_has_left_its_word(launcher: LauncherForkServer, tmp_path: Path) -> None:
    (tmp_path / "12-0-0.head").write_text('{"hosts": ["127.0.0.1"], "port": 9, "key": "00", "node": "n1"}')
    launched = launcher.srun("--rendezvous", str(tmp_path), of("add_up"), "5", tasks=1)
    assert launched.lines() == ["[rank 0] [3]", "[rank 1] [3]"]
    assert list(tmp_path.iterdir()) == []


# What goes wrong in the function


def test_an_exception_ends_all_ranks(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("fail"))
    assert re.search(r"^RankError: rank_functions.py, line \d+: rank 1 raised ValueError: rank 1 has had", launched.err)
    assert launched.err.endswith("Rank 1 ran on node n1.\n")
    assert launched.err.count("RankError") == 1
    assert launched.statuses == [1] * 4
    assert gone(launched)


def test_a_deadlock_is_reported(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("wait_in_a_circle"))
    assert "deadlock. rank 0 waits to receive 4 float32 from rank 1 (rank_functions.py, line " in launched.err
    assert launched.err.endswith("Ranks 0 and 1 ran on node n1.\nRanks 2 and 3 ran on node n2.\n")
    assert launched.statuses == [1] * 4
    assert gone(launched)


def test_a_mismatch_names_both_sides(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("do_not_fit"))
    assert re.search(r"rank 3 sends 3 float32 \(rank_functions.py, line \d+\), but rank 0 receives", launched.err)
    assert launched.statuses == [1] * 4


def test_a_message_that_nobody_receives(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("never_received"))
    assert "rank 2 sent 3 float32 to rank 0 with tag 0, and nobody received it" in launched.err
    assert launched.statuses == [1] * 4


def test_messages_that_pile_up_do_not_keep_a_rank_from_ending(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("flood"), tasks=1)
    assert "rank 0 raised ValueError: sent enough" in launched.err
    assert launched.statuses == [1] * 2
    assert gone(launched)


def test_a_call_in_the_background_ends_too(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("fail_behind_a_background_call"), tasks=1)
    assert "rank 1 raised ValueError: and the barrier goes on" in launched.err
    assert gone(launched)


# Deaths


@pytest.mark.parametrize("rank", [0, 3])
def test_a_killed_rank_is_named_with_its_node(launcher: LauncherForkServer, rank: int) -> None:
    launched = launcher.srun(of("die"), str(rank))
    assert f"rank {rank} ended in the middle of the run: its process is gone." in launched.err
    assert launched.err.endswith(f"Rank {rank} ran on node n{1 + rank // 2}.\n")
    assert launched.statuses == [-9 if other == rank else 1 for other in range(4)]
    assert gone(launched)


def test_a_rank_killed_among_large_messages_is_named(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("die_in_an_all_reduce"))
    assert "rank 2 ended in the middle of the run" in launched.err
    assert launched.statuses == [1, 1, -9, 1]
    assert gone(launched)


def test_a_rank_that_its_launcher_ends_says_so(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("be_terminated"), "1", tasks=1)
    assert "rank 1 raised Ended: SIGTERM from what has started it" in launched.err
    assert launched.statuses == [1, 1]
    assert gone(launched)


def test_without_a_head_all_ranks_end(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("behead"))
    expected = [f"rank {rank} on node n{1 + rank // 2}: lost the head, on node n1." for rank in range(4)]
    assert sorted(launched.err.splitlines()) == expected
    assert launched.left == 0
    assert launched.statuses == [1] * 4


# What goes wrong before


def test_a_rank_that_does_not_come_is_named(launcher: LauncherForkServer) -> None:
    variables = [slurm_variables(rank, 2, 2) for rank in (0, 1, 3)]
    for seconds in ("2", "8", "32", "128"):  # a busy machine takes its time to start the others
        launched = launcher.start("--patience", seconds, of("add_up"), "1", variables=variables)
        if "rank 2 has not come" in launched.err and launched.statuses == [1] * 3:
            break
    assert launched.err == (
        f"distlib launch: rank 2 has not come to node n1 within {seconds} s; here: rank 0 on node n1, "
        "rank 1 on node n1, rank 3 on node n2. Were all nodes started, and can they reach that one?\n"
    )
    assert launched.statuses == [1] * 3
    assert gone(launched)


def test_without_rank_0_the_others_say_what_they_wait_for(launcher: LauncherForkServer) -> None:
    variables = [slurm_variables(rank, 2, 1) for rank in (1,)]
    launched = launcher.start("--patience", "1", of("add_up"), "1", variables=variables)
    assert launched.err.startswith("distlib launch: rank 1 on node n2 has not found rank 0 within 1 s: no word of it.")
    assert launched.statuses == [2]


def test_a_rank_that_comes_twice_is_named(launcher: LauncherForkServer) -> None:
    variables = [slurm_variables(rank, 3, 1) for rank in (0, 1, 1)]
    launched = launcher.start("--patience", "50", of("show"), variables=variables)
    assert "rank 1 on node n2 has come, and so has another rank 1, on node n2" in launched.err
    assert gone(launched)


def test_ranks_that_count_differently_are_named(launcher: LauncherForkServer) -> None:
    variables = [slurm_variables(0, 2, 1), slurm_variables(1, 3, 1)]
    launched = launcher.start(of("show"), variables=variables)
    assert "rank 1 on node n2 expects 3 ranks, the head on node n1 expects 2." in launched.err
    assert launched.statuses == [1, 1]


def test_a_missing_variable_ends_the_command(launcher: LauncherForkServer) -> None:
    launched = launcher.start(of("show"), variables=[{"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1"}])
    assert launched.err == (
        "distlib launch: MASTER_ADDR is not set, but RANK, WORLD_SIZE and MASTER_PORT: torchrun sets them all.\n"
    )
    assert launched.statuses == [2]


@pytest.mark.parametrize(
    "words, what",
    [
        (["nothing.py:main"], "there is no script /"),
        (["main"], "expected what to run as script.py:function, got 'main'."),
        ([of("show")], "on how many ranks? Say distlib launch --ranks 4 …, or start it by torchrun or srun."),
    ],
)
def test_a_wrong_command_says_what_is_wrong(launcher: LauncherForkServer, words: list[str], what: str) -> None:
    launched = launcher.start(*words, variables=[{}])
    assert launched.err.startswith(f"distlib launch: {what}")
    assert launched.statuses == [2]


def test_ranks_are_counted_once(launcher: LauncherForkServer) -> None:
    launched = launcher.srun("--ranks", "2", of("show"), nodes=1, tasks=1)
    assert launched.err == "distlib launch: srun has started 1 ranks: leave out --ranks and --elastic.\n"


def test_nccl_needs_a_card(launcher: LauncherForkServer) -> None:
    launched = launcher.srun("--backend", "nccl", of("show"), nodes=1, tasks=2, CUDA_VISIBLE_DEVICES="")
    assert "rank 0 on node n1 has no GPU that NCCL can use: leave out --backend, or say --backend gloo." in launched.err
    launched = launcher.start("--ranks", "2", "--backend", "nccl", of("show"), variables=[{}])
    assert launched.err == "distlib launch: --backend is for what torchrun or srun has started: leave it out.\n"


def test_a_function_that_is_not_there(launcher: LauncherForkServer) -> None:
    launched = launcher.srun(of("nothing"), nodes=1, tasks=1)
    assert "AttributeError: rank_functions.py has no function nothing; it has add_up, " in launched.err
