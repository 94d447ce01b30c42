# %% [markdown]
# # Trees: few messages in a row
#
# On your 1,024 GPUs, every training step waits 10 ms for four bytes, the norm of all gradients. A vendor offers you a
# network with ten times the bandwidth. A colleague offers to change one word of the program, `"ring"` to `"tree"`. Both
# promise that the wait becomes much shorter. Whom do you believe?
#
# > After this lesson you will be able to
# >
# > - say what an all-reduce costs from four numbers: ranks, bytes, latency and bandwidth,
# > - draw the messages of two more all-reduces, and count their steps and bytes,
# > - choose an all-reduce for a tensor, a number of ranks and a network.
# >
# > **Time:** about 45 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU. Afterwards comes [the
# > exercise](../exercises/03_trees_and_grids/03_trees_and_grids.ipynb).

# %% tags=["folded"]
# The imports
import torch
import torch.distributed as dist

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    World,
    all_reduce,
    all_reduce_seconds,
    crossover_bytes,
    halving_doubling_all_reduce,
    torch_distributed,
    tree_all_reduce,
)
from distlib.draw import (
    bytes_per_rank,
    compare_costs,
    format_seconds,
    play_chunks,
    predict,
    race,
    sweep,
    timeline,
    watch_chunks,
)

KIB, MIB = 2**10, 2**20

# %% [markdown]
# ## What does one message cost?
#
# In lesson 02 a message had two costs: a latency $\alpha$, however small the message is, and $\beta$ seconds for every
# byte.
#
# $$T(m) = \alpha + m\,\beta$$
#
# The bandwidth is $1/\beta$. The network of this lesson is made up, so that its numbers are easy to calculate with:

# %%
FAR = Link(latency=5e-6, bandwidth=10e9)  # 5 µs and 10 GB/s

# %%
guess_1 = predict(
    "One message has 4 bytes, another one 5,000. How much longer does the second take?",
    choices=["10 % longer", "twice as long", "1,000 times as long"],
)


# %%
def one_message(comm: Communicator, nbytes: int) -> None:
    tensor = torch.empty(nbytes // 4, device="meta")  # a shape, but no numbers
    if comm.rank == 0:
        comm.send(tensor, dst=1)
    else:
        comm.recv(tensor, src=0)


pair, taken = SimulatedWorld(2, Cluster.flat(2, FAR)), {}
for nbytes in (500, 5_000, 50_000, 500_000, 5_000_000):
    pair.run(one_message, nbytes)
    taken[nbytes] = pair.elapsed
pair.run(one_message, 4)
longer = taken[5_000] / pair.elapsed - 1
print(guess_1.compare("10 % longer" if longer < 0.2 else "twice as long"))
sweep(
    {
        "the message": taken,
        "its latency": dict.fromkeys(taken, FAR.latency),
        "its bytes": {nbytes: nbytes / FAR.bandwidth for nbytes in taken},
    },
    along="bytes",
    title="What a message costs",
    show=format_seconds,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert round(longer, 2) == 0.1
assert all(abs(time - FAR.seconds(nbytes)) < 1e-12 for nbytes, time in taken.items())
assert round(FAR.latency * FAR.bandwidth) == 50_000
assert taken[50_000] == 2 * FAR.latency

# %% [markdown]
# The lines of the latency and of the bytes cross at 50 kB, where both cost 5 µs. This size is $\alpha/\beta$, the
# latency times the bandwidth.
#
# **A message smaller than α/β is mostly latency, a larger one mostly bytes.**
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | real libraries | small and large messages are sent in different ways, so the line has steps |
# | several messages at once | their latencies pass at the same time, but their bytes share the link |
#
# </details>
#
# ## Why is the ring slow for four bytes?
#
# In a ring of $N$ ranks, every step waits for the chunk of the step before. So $2(N-1)$ messages follow one another,
# and with a tensor of $S$ bytes each has $S/N$ bytes:
#
# $$T_\text{ring} = 2(N-1)\,\left(\alpha + \frac{S}{N}\,\beta\right)$$
#
# Here are the two parts of this time on 1,024 ranks, for a small and for a large tensor. In the code, `seconds`
# evaluates the formula, and `flat(1024)` is a cluster of 1,024 ranks with equal links. The folded cell compares the
# formulas of this lesson with runs on simulated ranks.

# %% tags=["folded"]
# Clusters with equal links, what the formulas say, and runs on simulated ranks
from distlib.draw import Picture


def flat(world_size: int, link: Link = FAR) -> Cluster:
    """Ranks that all have the same link to each other."""
    return Cluster.flat(world_size, link)


def seconds(name: str, cluster: Cluster, nbytes: int) -> float:
    """What the formula of an all-reduce says."""
    return all_reduce_seconds(name, cluster, nbytes // 4, itemsize=4)


def without_numbers(comm: Communicator, length: int, name: str) -> None:
    all_reduce(comm, torch.empty(length, device="meta"), algorithm=name)


def run_on(cluster: Cluster, nbytes: int, name: str) -> SimulatedWorld:
    """Run an all-reduce on simulated ranks, for its time and its messages."""
    ranks = SimulatedWorld(cluster.world_size, cluster)
    ranks.run(without_numbers, nbytes // 4, name)
    return ranks


# Each formula of this lesson against the simulator, where all links are equal
for name in ("ring", "tree", "halving_doubling"):
    for link in (FAR, Link(1e-3, 50e6), Link(1e-6, 100e9)):
        for n, nbytes in [(2, 4), (5, 4 * KIB), (8, MIB), (13, MIB + 12)]:
            simulated = run_on(flat(n, link), nbytes, name).elapsed
            assert abs(simulated / seconds(name, flat(n, link), nbytes) - 1) < 1e-9

# %%
SMALL, LARGE = 4 * KIB, 400 * MIB
latency = 2 * (1024 - 1) * FAR.latency
parts = {}
for label, nbytes in [("4 KiB", SMALL), ("400 MiB", LARGE)]:
    together = seconds("ring", flat(1024), nbytes)
    parts[label] = {"latency": latency, "bytes": together - latency}
compare_costs(
    parts,
    title="A ring of 1,024 ranks; each column has its own scale",
    show=format_seconds,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert 2 * (1024 - 1) == 2046 and SMALL / 1024 == 4 and LARGE / 1024 == 400 * KIB
assert 8 < 400 * KIB / 50_000 < 8.5
for nbytes in (4, SMALL):
    assert round(seconds("ring", flat(1024), nbytes) * 1e3) == 10
assert 0.99 < latency / seconds("ring", flat(1024), SMALL) < 1
assert 0.1 < latency / seconds("ring", flat(1024), LARGE) < 0.12
assert abs(2 * latency / seconds("ring", flat(1024), 50_000 * 1024) - 1) < 1e-9

# %% [markdown]
# Both tensors wait for the same 2,046 latencies. With 4 KiB a chunk is a single number, so the bytes cost almost
# nothing. With 400 MiB a chunk is eight times $\alpha/\beta$, and the bytes cost eight times as much as the latencies.
#
# For a ring, then, a tensor is small if its *chunks* are smaller than $\alpha/\beta$. On 1,024 ranks even a tensor of
# 50 MB is small, because its chunks have only 49 kB.
#
# **A ring waits for 2(N − 1) messages in a row, however small the tensor is.**
#
# **Try it.** Your vendor's first offer was ten times the bandwidth. The second offer is half the latency. Which one
# would you take for 4 KiB, and which for 400 MiB? Change one number of `better` at a time.

# %%
better = Link(latency=5e-6, bandwidth=10e9)

for nbytes in (SMALL, LARGE):
    old, new = (seconds("ring", flat(1024, link), nbytes) for link in (FAR, better))
    print(
        f"{nbytes:11,} bytes: {old * 1e3:5.2f} ms before, {new * 1e3:5.2f} ms with it"
    )

# %% tags=["folded"]
# One way to do it
for offer in (Link(5e-6, 100e9), Link(2.5e-6, 10e9)):
    for nbytes in (SMALL, LARGE):
        ms = seconds("ring", flat(1024, offer), nbytes) * 1e3
        print(f"{offer}: {nbytes:11,} bytes in {ms:.2f} ms")
assert seconds("ring", flat(1024, Link(5e-6, 100e9)), SMALL) > 0.999 * latency
assert round(seconds("ring", flat(1024, Link(2.5e-6, 10e9)), SMALL) / latency, 2) == 0.5

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# For 4 KiB ten times the bandwidth gains less than a thousandth, so do not believe the vendor. Half the latency halves
# the time. For 400 MiB it is the other way around: the bandwidth makes the ring five times as fast, and the latency
# gains a twentieth.
#
# Bandwidth can be bought. Latency comes from distances, switches and software, and is hard to get rid of. But a program
# can wait for fewer latencies.
#
# </details>
#
# ## A tree: few steps
#
# In [lesson 01](01_messages.ipynb) a broadcast went down a tree: every rank that has the tensor passes it on, so the
# number of ranks with the tensor doubles in each step. A reduce goes up the same tree. A reduce and then a broadcast
# make an all-reduce.

# %%
tree = run_on(flat(8), SMALL, "tree")
timeline(tree.trace, title="A tree of 8 ranks: up to rank 0, and down again")

# %% tags=["folded"]
# Checks of the numbers around here
assert sum(tree.trace.messages_sent) == 14 and tree.trace.rounds == 6
for n in (8, 64, 65):
    steps = run_on(flat(n), SMALL, "tree").elapsed / FAR.seconds(SMALL)
    assert round(steps, 9) == 2 * (n - 1).bit_length()
assert sum(sent == 1 for sent in tree.trace.messages_sent) == 4  # half of the ranks

# %% [markdown]
# Half of the ranks send once, at the very start, and then wait until the end. Eight ranks need three steps up and three
# steps down. The numbers in the picture are rounds: each is one more than the highest round that the sender has
# received. So the three messages of rank 0 on the way down have the same number, but they leave one after the other, in
# three steps. In general there are $\lceil\log_2 N\rceil$ steps each way, and every step moves the whole tensor:
#
# $$T_\text{tree} = 2\,\lceil\log_2 N\rceil\,(\alpha + S\,\beta)$$
#
# On 1,024 ranks the tree has 20 steps, where the ring has 2,046.

# %%
print("1,024 ranks        ring         tree")
for label, nbytes in [("4 bytes", 4), ("4 KiB", SMALL), ("400 MiB", LARGE)]:
    ring_ms, tree_ms = (
        seconds(name, flat(1024), nbytes) * 1e3 for name in ("ring", "tree")
    )
    print(f"{label:>11} {ring_ms:8.2f} ms {tree_ms:9.2f} ms")

# %% tags=["folded"]
# Checks of the numbers above and below
assert seconds("ring", flat(1024), 4) > 100 * seconds("tree", flat(1024), 4)
assert 8.5 < tree_ms / ring_ms < 9.5

# %% [markdown]
# Your colleague is right: for four bytes, the tree is a hundred times as fast. For 400 MiB it is nine times as slow,
# because it moves the tensor 20 times in a row, while the chunks of a ring add up to less than two tensors.
#
# **A tree waits for only 2⌈log₂ N⌉ messages in a row, but each is the whole tensor.**
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | the tensor is cut into blocks | a block goes up while the next one follows, so bytes cost less (lesson 03b) |
# | switches that add (NVIDIA's SHARP) | the tree consists of switches, and each rank sends its tensor once |
#
# </details>
#
# **Try it.** In a tree of five ranks, first rank 1 sends to 0, while rank 3 sends to 2. Then rank 2 and at last rank 4
# send to 0. One rank starts two steps late. Which rank can it be without making the sum late? Guess, then change `late`
# until you find it.

# %% tags=["folded"]
# A tree of five ranks, one of them late
STEP = FAR.seconds(SMALL)


def start_late(comm: Communicator, late: int | None) -> None:
    if comm.rank == late:
        comm.sleep(2 * STEP)
    tree_all_reduce(comm, torch.empty(SMALL // 4, device="meta"))


def delay_of(late: int) -> tuple[float, Picture]:
    """By how many steps the sum is late, and a picture."""
    five = SimulatedWorld(5, flat(5))
    five.run(start_late, None)
    on_time = five.elapsed
    five.run(start_late, late)
    picture = timeline(five.trace, title=f"A tree of five ranks; rank {late} is late")
    return (five.elapsed - on_time) / STEP, picture


# %%
late = 1
delay, picture = delay_of(late)
print(f"rank {late} is two steps late, the sum is {delay:.1f} steps late")
picture

# %% tags=["folded"]
# One way to do it
delays = [round(delay_of(rank)[0], 6) for rank in range(5)]
print("steps that the sum is late, for each late rank:", delays)
print("Rank 4 has nobody below it, and its turn comes only in step 3.")
assert delays == [2, 2, 2, 2, 0]

# %% [markdown]
# ## Halving and doubling: few steps and few bytes
#
# The ring has few bytes and many steps, the tree few steps and many bytes. Can an all-reduce have few of both?
#
# Let two ranks share the work. Rank 0 gives its partner the second half of its tensor, and adds the first half of the
# partner's tensor to its own. From now on each of the two is responsible for one half. In the next step every rank
# finds a new partner that is responsible for the same half, and the two share this half in the same way. This phase is
# **halving**, and it ends when every rank has one chunk of the sum.
#
# In the second phase, **doubling**, the ranks go back through the same partners, and each gives its partner a copy of
# all the sums that it has. Play both phases, on four real processes:

# %%
world = World(4)
history = watch_chunks(world, halving_doubling_all_reduce)
play_chunks(history, title="Halving (rounds 1 and 2), then doubling (rounds 3 and 4)")

# %% [markdown]
# In round 1 the partner is two ranks away, and half of the tensor moves. In round 2 the partner is next door, and only
# a quarter moves, because each pair shares a half. Doubling does the same in reverse.

# %%
guess_2 = predict(
    "8 ranks halve and double. Compared with a ring, how many bytes does a rank send?",
    choices=["fewer", "as many", "more"],
)

# %%
sent = {}
for name in ("ring", "halving_doubling"):
    trace = run_on(flat(8), 8 * MIB, name).trace
    sizes = [message.nbytes / MIB for message in trace if message.src == 0]
    sent[name] = sum(sizes)
    print(
        f"{name:16} {sent[name]:g} MiB = " + " + ".join(f"{size:g}" for size in sizes)
    )

difference = sent["halving_doubling"] - sent["ring"]
print(
    guess_2.compare(
        "as many" if not difference else "more" if difference > 0 else "fewer"
    )
)

# %% tags=["folded"]
# Checks of the numbers above and below
world.close()
assert history.full_sums == [0, 0, 4, 8, 16]
assert sizes == [4, 2, 1, 1, 2, 4] and sent == {"ring": 14, "halving_doubling": 14}
assert trace.rounds == 6
for n in (2, 4, 8, 16, 64):
    halving, ring = (
        run_on(flat(n), 4 * MIB, name).trace for name in ("halving_doubling", "ring")
    )
    assert halving.bytes_sent == ring.bytes_sent
    assert halving.rounds == 2 * (n.bit_length() - 1)
    for size in (4, SMALL, LARGE):
        by_name = {
            name: seconds(name, flat(n), size)
            for name in ("ring", "tree", "halving_doubling")
        }
        assert min(by_name.values()) > 0.999_999 * by_name["halving_doubling"]

# %% [markdown]
# A half, a quarter, an eighth, and back. Together that is $2\frac{N-1}{N}S$, as in a ring, if the chunks are equal.
# Lesson 02 showed that the busiest rank cannot send less, unless the network itself adds. The steps are those of a
# tree:
#
# $$T_\text{halving-doubling} = 2\,\log_2 N\,\alpha + 2\,\frac{N-1}{N}\,S\,\beta$$
#
# **With 2, 4, 8, … ranks, halving and doubling has the tree's steps and the ring's bytes.**
#
# ### One rank more
#
# And with 65 ranks? The simplest answer is a **fold**. First, the extra rank sends its whole tensor to another rank,
# which adds it to its own. At the end the extra rank gets the whole sum back.

# %%
guess_3 = predict("64 ranks need 83 ms for 400 MiB. How long do 65 need?", unit="ms")

# %%
just_right, one_more = (
    run_on(flat(n), LARGE, "halving_doubling").elapsed * 1e3 for n in (64, 65)
)
print(f"64 ranks: {just_right:.1f} ms, 65 ranks: {one_more:.1f} ms")
print(guess_3.compare(one_more))
five = run_on(flat(5), SMALL * 4, "halving_doubling")
timeline(five.trace, title="Halving and doubling with 5 ranks: rank 0 is folded in")

# %% tags=["folded"]
# Checks of the numbers above and below
assert round(just_right) == 83 and 2 < one_more / just_right < 2.1
assert five.trace.messages_sent == [1, 5, 4, 4, 4]
assert five.trace.rounds == 6

# %% [markdown]
# With one rank more, 400 MiB take twice as long, because the whole tensor moves two more times: in and out. In the
# picture, the extra rank is rank 0, which sends its tensor to rank 1 and waits for the sum. [Lesson
# 03b](03b_networks.ipynb) has a better method, with which 65 ranks take less than 1 % longer than 64 for such a large
# tensor.
#
# ## Which one, when?
#
# With 64 ranks and equal links, halving and doubling is never slower than the ring or the tree. With 96 ranks it needs
# a fold for 32 of them. Here are all three, for tensors from 1 KiB to 1 GiB:

# %%
SIZES = [2**power for power in range(10, 31)]
THREE = ["ring", "tree", "halving_doubling"]
race(flat(96), SIZES, THREE, title="96 ranks, equal links")

# %% [markdown]
# On the left the lines are level: nearly all of the time is latency, so few steps win. On the right the lines rise:
# nearly all of the time is bytes. There the ring wins, because with the fold the whole tensor moves two more times.
#
# The border between the two is at 4.2 MiB, which is 88 times $\alpha/\beta$. What if the network gets better?

# %%
guess_4 = predict(
    "The bandwidth doubles. The size from which the ring is the fastest …",
    choices=["halves", "stays", "doubles"],
)

# %%
borders = []
for link in (FAR, Link(FAR.latency, 2 * FAR.bandwidth)):
    border = crossover_bytes(flat(96, link), "halving_doubling", "ring")
    borders.append(border)
    ratio = border / (link.latency * link.bandwidth)
    print(f"{link}: from {border / MIB:.1f} MiB on, {ratio:.0f} times α/β")
print(guess_4.compare("doubles" if borders[1] > 1.5 * borders[0] else "stays"))

# %% tags=["folded"]
# Checks of the numbers above and below
assert round(borders[0] / MIB, 1) == 4.2 and round(borders[1] / borders[0], 3) == 2
by_hand = (190 - 14) / (2 + 2 * 63 / 64 - 2 * 95 / 96)
assert round(by_hand) == 88 and abs(borders[0] / (by_hand * 50_000) - 1) < 1e-3
for n in range(2, 300):
    for size in (MIB, LARGE):  # on equal links the tree is never ahead of both
        by_name = {name: seconds(name, flat(n), size) for name in THREE}
        assert by_name["halving_doubling"] <= by_name["tree"] * 1.000_001

# %% [markdown]
# It doubles. On a network with more bandwidth, more tensors are small, because the latency stays. The 88 depends on
# nothing but the number of ranks.
#
# **Small tensors want few steps, large tensors few bytes; the border moves with α/β.**
#
# <details><summary>The 88, by hand</summary>
#
# The ring waits for $2\cdot95 = 190$ latencies, halving and doubling with its fold for $2\cdot6 + 2 = 14$, so it saves
# 176 latencies. It pays $2\,S\beta$ for the fold and $2\cdot\frac{63}{64}\,S\beta$ for the rest, where the ring pays
# $2\cdot\frac{95}{96}\,S\beta$: together $1.99\,S\beta$ more. Both are equal at $S = \frac{176}{1.99}\,\alpha/\beta$.
#
# </details>
#
# | $N$ ranks, $S$ bytes | messages in a row | bytes that the busiest rank sends | good for |
# |---|---|---|---|
# | ring | $2(N-1)$ | $2\frac{N-1}{N}S$ | large tensors, any number of ranks |
# | tree | $2\lceil\log_2 N\rceil$ | $\lceil\log_2 N\rceil\,S$ | small tensors, any number of ranks |
# | halving and doubling | $2\log_2 N$ | $2\frac{N-1}{N}S$ | all tensors, if $N$ is a power of two |
# | the same with a fold | $2\lfloor\log_2 N\rfloor + 2$ | less than $3\,S$ | small tensors |
#
# On equal links the tree never beats halving and doubling. But two trees at once, in lesson 03b, send few bytes with
# any number of ranks.
#
# **Try it.** With 12 ranks and 1 MiB the ring wins. Change the link until halving and doubling wins. Can the latency
# alone do it? Can the bandwidth alone?

# %%
link = Link(latency=5e-6, bandwidth=10e9)

for name in THREE:
    print(f"{name:16} {seconds(name, flat(12, link), MIB) * 1e6:5.0f} µs")

# %% tags=["folded"]
# One way to do it
for link in (Link(20e-6, 10e9), Link(5e-6, 40e9)):
    ring, _, halving = (seconds(name, flat(12, link), MIB) for name in THREE)
    print(
        f"{link}: ring {ring * 1e6:.0f} µs, halving and doubling {halving * 1e6:.0f} µs"
    )
    assert halving < ring
print("Either number alone: what counts is how large 1 MiB is compared with α/β.")
ring, tree, halving = (seconds(name, flat(12), MIB) for name in THREE)
assert ring < min(tree, halving)

# %% [markdown]
# ## And if some links are faster?
#
# In a cluster, GPUs of the same **node** are joined by fast links, and nodes by slower links. Say 1 µs and 100 GB/s
# inside a node, and between nodes the 5 µs and 10 GB/s from above. Take two nodes, with ranks 0 to 7 and 8 to 15, where
# every rank also has a link of its own to the other node. A ring in this order uses only two of these slow links.

# %%
guess_5 = predict(
    "8 MiB in a ring of 16 slow links. Then 14 become at least 5 times as fast. The time is …",
    choices=["about an eighth", "about half", "the same"],
)

# %%
NEAR = Link(latency=1e-6, bandwidth=100e9)
two_nodes = Cluster(nodes=2, ranks_per_node=8, intra=NEAR, inter=FAR)
all_slow = run_on(flat(16), 8 * MIB, "ring").elapsed * 1e3
two_slow = run_on(two_nodes, 8 * MIB, "ring").elapsed * 1e3
print(f"ring, 8 MiB: {all_slow:.2f} ms with slow links, {two_slow:.2f} ms on two nodes")
print(guess_5.compare("the same" if two_slow / all_slow > 0.9 else "about half"))

# %% [markdown]
# Every step waits for the two slow links, each of which carries almost two whole tensors, while the other 14 carry
# nothing. The **hierarchical** all-reduce uses all 16:
#
# 1. Reduce-scatter inside each node, so that each of its eight ranks has an eighth of the node's sum.
# 2. All-reduce between nodes by halving and doubling, each rank with the ranks that have the same eighth.
# 3. All-gather inside each node.

# %%
runs = {name: run_on(two_nodes, 8 * MIB, name) for name in ("ring", "hierarchical")}
for name, run in runs.items():
    print(f"{name}: {run.elapsed * 1e3:.2f} ms")
crossing = {
    name: run.trace.filter(lambda message: message.src // 8 != message.dst // 8)
    for name, run in runs.items()
}
bytes_per_rank(compare=crossing, title="Bytes between the two nodes, of 8 MiB")

# %% [markdown]
# With the ring, two ranks send 15 MiB each to the other node. With the hierarchical all-reduce each of the 16 ranks
# sends 1 MiB, and the all-reduce is six times as fast. Here is the race on eight such nodes:

# %%
eight_nodes = Cluster(nodes=8, ranks_per_node=8, intra=NEAR, inter=FAR)
race(eight_nodes, SIZES, [*THREE, "hierarchical"], title="Eight nodes of eight ranks")

# %% tags=["folded"]
# Checks of the numbers above and below
assert abs(all_slow - two_slow) < 1e-9
assert 6 < runs["ring"].elapsed / runs["hierarchical"].elapsed < 6.5
assert {m.src for m in crossing["ring"]} == {7, 15}
assert max(crossing["ring"].bytes_sent) == 15 * MIB
assert crossing["hierarchical"].bytes_sent == [MIB] * 16
border = crossover_bytes(eight_nodes, "halving_doubling", "hierarchical")
assert round(border / KIB) == 57
for name in (*THREE, "hierarchical"):
    for size in (SMALL, MIB):
        simulated = run_on(eight_nodes, size, name).elapsed
        assert abs(simulated / seconds(name, eight_nodes, size) - 1) < 1e-9

# %% [markdown]
# From 57 KiB on, the hierarchical all-reduce is the fastest of the four. For smaller tensors halving and doubling wins,
# because it has fewer steps inside the nodes.
#
# **For large tensors, add up inside each node first, so that all slow links share the bytes.**
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | one cable for a whole node | the hierarchical one gains less; on three nodes, with its fold, the ring is faster |
# | several rings at once, as in NCCL | each can leave a node through another rank, so the gain is smaller |
# | another numbering of the ranks | halving and doubling can be as fast as the hierarchical all-reduce |
#
# [Lesson 03b](03b_networks.ipynb) measures the cable and the numbering.
#
# </details>
#
# ## In real frameworks
#
# In PyTorch you call `dist.all_reduce`, and the backend chooses the algorithm. With small whole numbers, which are not
# rounded, its result is exactly ours:


# %%
def three_sums(comm: Communicator) -> list[torch.Tensor]:
    theirs = torch.arange(1001.0) * (comm.rank + 1)
    ours = [theirs.clone(), theirs.clone()]
    tree_all_reduce(comm, ours[0])
    halving_doubling_all_reduce(comm, ours[1])
    with torch_distributed(comm, "gloo"):
        dist.all_reduce(theirs)
    return [*ours, theirs]


with World(6) as six_ranks:
    for *ours, theirs in six_ranks.run(three_sums):
        assert all(torch.equal(result, theirs) for result in ours)
print("Tree, halving and doubling, and torch.distributed agree.")

# %% [markdown]
# Which algorithm runs there?
#
# - **gloo** runs a ring unless told otherwise. It also has [halving and
#   doubling](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc), in groups of two or more.
# - **NCCL** has rings, trees and more, estimates the time of each for the size at hand, and takes [the
#   lowest](https://github.com/NVIDIA/nccl/issues/457).
# - **MPICH**, a library for message passing on clusters, chooses by size: whole tensors in log₂ N steps for short
#   tensors, halving and doubling for long tensors (Thakur and others, below).
#
# NCCL's [estimate](https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc) adds what you know: a latency for
# each step inside a node, another for each step between nodes, and the bytes divided by the bandwidth. With
# [NCCL_ALGO](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo) you limit its choice:
#
#     NCCL_ALGO=allreduce:tree torchrun --nnodes 2 --nproc-per-node 8 train.py
#
# Without `allreduce:` broadcasts would fail, because they would have to use a tree, too, and NCCL has none for them.
#
# ## In short
#
# - A message smaller than α/β is mostly latency, a larger one mostly bytes.
# - A ring waits for 2(N − 1) chunks in a row, a tree for 2⌈log₂ N⌉ whole tensors.
# - With 2, 4, 8, … ranks, halving and doubling has the tree's steps and the ring's bytes.
# - Small tensors want few steps, large tensors few bytes; the border moves with α/β.
# - For large tensors, add up inside each node first: then all slow links share the bytes.
#
# ## Now you
#
# In [the exercise](../exercises/03_trees_and_grids/03_trees_and_grids.ipynb) you write the tree, and halving and
# doubling for any number of ranks.
#
# [Lesson 03b](03b_networks.ipynb) is a side road: grids, two trees at once, many nodes, real clocks, and 4,096 ranks.
#
# ## Further reading
#
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. The formulas of this lesson, and measurements.
# - R. Rabenseifner, [Optimization of Collective Reduction
#   Operations](https://doi.org/10.1007/978-3-540-24685-5_1), ICCS 2004. Halving and doubling, also for other numbers of
#   ranks.
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of
#   workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), Journal of Parallel and Distributed Computing
#   69(2), 2009. The lower bound that the ring meets.
