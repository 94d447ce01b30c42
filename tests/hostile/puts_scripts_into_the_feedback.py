# Deserves: everything but naive_all_reduce
# HTML and JavaScript in its texts, outputs and errors, for whoever opens the feedback.
import nbformat


def hand_in(work):
    script = "<script>document.title = 'taken over'</script><img src=x onerror=alert(1)>"
    work.answer("naive_all_reduce", f"def naive_all_reduce(comm, tensor):\n    raise ValueError({script!r})\n")
    work.insert(f"print({script!r})", before="naive_all_reduce")
    work.notebook.cells[1].source += script
    output = {
        "output_type": "display_data",
        "data": {"text/html": script, "application/javascript": "alert(1)"},
        "metadata": {},
    }
    work.notebook.cells[2].outputs = [nbformat.from_dict(output)]
