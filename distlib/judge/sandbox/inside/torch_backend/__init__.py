"""In a sandbox: torch's process group over the judge's network. The judge runs what each of torch's calls does."""
