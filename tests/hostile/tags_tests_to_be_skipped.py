# Deserves: everything but naive_all_reduce
# Test cells have the tag with which nbclient skips a cell.
def hand_in(work):
    work.spoil("naive_all_reduce")
    for cell in work.notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.metadata["tags"] = ["skip-execution"]
