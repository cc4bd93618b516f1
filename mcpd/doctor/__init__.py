"""What may be wrong with an installation; runs in the process of the command line."""
