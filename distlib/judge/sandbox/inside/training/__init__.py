"""In a sandbox: none of the library's training is there."""
