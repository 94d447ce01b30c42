"""What workers and servers say to each other.

pull     worker  ── REQUEST (PULL, 0) ──►  server  ── PARAMETERS ──►  worker
push     worker  ── REQUEST (PUSH, samples) ──►  server,  worker  ── GRADIENT ──►  server
leave    worker  ── REQUEST (LEAVE, 0) ──►  server

Of a sparse table a request names some rows: the second number is how many, and their keys follow.

keys     worker  ── REQUEST (PULL or PUSH, count) ──►  server,  worker  ── KEYS ──►  server
"""

PULL, PUSH, LEAVE = range(3)
"""What a worker asks for: a request is a message of two numbers, this and how many samples its gradient is of."""

REQUEST, GRADIENT, PARAMETERS, STATE, KEYS = range(5)
"""The tags of the messages between worker and server; STATE is from a server to its replica, KEYS say
which rows of a sparse table are meant."""
