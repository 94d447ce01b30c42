"""The graded functions, one file per exercise: cases, judges, and the usual mistakes in words."""
