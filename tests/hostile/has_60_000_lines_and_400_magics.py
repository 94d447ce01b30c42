# Deserves: everything
# A cell of 60,000 lines, 400 of which are magics, and another with 600 shell lines.
def hand_in(work):
    lines = [f"%time x = {number}" if number % 150 == 0 else f"y = {number}" for number in range(60_000)]
    work.insert("\n".join(lines), before="naive_all_reduce_visible")
    work.insert("!ls\n" * 600, before="naive_all_reduce_visible")
