"""Texts that stand in every exercise, written once: `# %% [markdown] text="hand_in"` is a cell with such a text.

{exercise} in a text becomes the exercise's name.
"""

TEXTS = {
    "hand_in": """
## Hand it in

1. Restart the kernel, run all cells, and check that every visible test passes. The button *Validate* at the top does
   the same and says what fails.
2. Save the notebook: Ctrl+S, on a Mac ⌘S. What is not saved is not handed in.
3. Remove the `#` below, and run the cell. It looks at the saved notebook, runs none of your code, and says what to do
   next. In a terminal, `distlib hand-in {exercise}` does the same.

You can hand in again, and the last time counts. When the cell runs again, along with all others, nothing is handed in
by mistake: if nothing has changed it says so, and if something has, it asks you first.
""".strip(),
}
