"""The command `mcpd`: everything that `mcpd_client.fast` leaves to a full command line."""
