# Wrong: ends the process. Loses all marks.
# Told: exit() or os._exit() in your function
# Told by the judge: rank 0 ended in the middle of the run
import os


def predict_time(algorithm, nbytes, cluster):
    os._exit(0)
