"""What a judge and the fork server in a sandbox tell each other: a few bytes, of a fixed length. Without torch."""

ORDER_BYTES = 64  # of what a fork server is told
NO_STATUS = 1 << 20  # in the place of an exit code that nobody knows
TOO_MUCH_MEMORY = NO_STATUS + 1  # likewise, of a rank that was ended for that
