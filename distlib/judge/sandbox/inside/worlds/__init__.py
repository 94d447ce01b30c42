"""In a sandbox: worlds that run nothing."""
