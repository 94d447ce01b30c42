# Wrong: ends the process. Loses all marks.
# Told: your function ends the whole process, with exit() or os._exit()
# Told by the judge: rank 0 ended in the middle of the run
import os


def predict_time(algorithm, nbytes, cluster):
    os._exit(0)
