"""The operator and the command line."""
