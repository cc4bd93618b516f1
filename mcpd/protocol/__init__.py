"""JSON-RPC and MCP without I/O: no trio, no sockets, no clock, no log."""
