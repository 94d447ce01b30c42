"""What people lose days to: one program for each trap."""
