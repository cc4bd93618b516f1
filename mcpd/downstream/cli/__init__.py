"""`mcpd call` and `mcpd tools` as text: words to arguments by schema, results and errors to what is printed. Pure."""
