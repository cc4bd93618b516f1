"""Signing in to a remote server, in the process of the command line: the daemon imports nothing of this."""
