"""In a sandbox: a SimulatedWorld that runs nothing."""
