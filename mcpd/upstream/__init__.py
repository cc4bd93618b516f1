"""The side the MCP servers are on: their processes, their sessions, their lives."""
