"""What workers and servers say to each other.

pull     worker  ── REQUEST (PULL, 0) ──►  server  ── PARAMETERS ──►  worker
push     worker  ── REQUEST (PUSH, samples) ──►  server,  worker  ── GRADIENT ──►  server
leave    worker  ── REQUEST (LEAVE, 0) ──►  server
"""

PULL, PUSH, LEAVE = range(3)
"""What a worker asks for: a request is a message of two numbers, this and how many samples its gradient is of."""

REQUEST, GRADIENT, PARAMETERS, STATE = range(4)
"""The tags of the messages between worker and server; STATE is from a server to its replica."""
