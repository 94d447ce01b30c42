# Wrong: ends the process. Loses all marks.
# Told: exit() or os._exit() in your function
import os


def predict_time(algorithm, nbytes, cluster):
    os._exit(0)
