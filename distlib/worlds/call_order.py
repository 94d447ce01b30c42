"""What real and simulated ranks say alike of the order of started calls."""

RUNS_ONLY_AFTER_IT = (
    "a started call waits for a call that runs only after it: start that one first, or wait for it outside"
)
