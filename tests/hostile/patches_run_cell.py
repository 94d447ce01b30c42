# Deserves: everything but naive_all_reduce
# Later cells are not run at all.
def hand_in(work):
    work.spoil("naive_all_reduce")
    work.insert(CELL, before="naive_all_reduce_visible")


CELL = """
shell = get_ipython()
type(shell).run_cell = lambda self, *args, **kwargs: None
type(shell).run_cell_async = None
shell.kernel.do_execute = lambda *args, **kwargs: {"status": "ok", "execution_count": 1}
"""
