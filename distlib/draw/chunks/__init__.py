"""Whose contributions are in which chunk: watched while a collective runs, and put side by side by rounds."""
