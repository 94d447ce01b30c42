"""The same strategies in other frameworks. A module imports its framework only when it is imported itself."""
