"""Pictures to play and to step through, and the still picture that stands for them."""
