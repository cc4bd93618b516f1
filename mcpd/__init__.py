"""mcpd: one daemon that owns MCP servers and shares them over one Unix socket."""

__version__ = "0.1.0"
