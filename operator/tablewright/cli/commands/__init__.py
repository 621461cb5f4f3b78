"""One module a command, or a few that belong together. Each imports its libraries when it runs, not before."""
