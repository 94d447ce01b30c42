"""In a sandbox: a World that runs nothing."""
