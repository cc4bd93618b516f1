"""Programs that start MCP servers from a configuration of their own, and our entries in it."""
