"""The side our clients are on: the socket, its connections, the `mcpd/*` methods."""
