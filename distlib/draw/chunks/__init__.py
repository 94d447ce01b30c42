"""Whose contributions are in which chunk: watched while a collective runs, and drawn."""
