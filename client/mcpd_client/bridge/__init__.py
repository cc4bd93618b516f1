"""`mcpd bridge`: what a host spawns as its MCP server on stdin and stdout, in front of the daemon.

It carries lines from one to the other, and keeps the host's side whole while the daemon is not there, is
started, or is replaced by another one. Standard library only, and of that as little as there can be: many
of these run at once, for as long as their hosts do.

    lines       what a bridge must know of a JSON-RPC line
    frames      how messages are told apart
    answers     what a bridge says itself
    entry       one line on its way, and whether it may be sent again
    session     the state between a host and whichever daemon there is
    link        finding, greeting and starting a daemon
    uplink      one connection after the other
    outlet      what waits for the host
    pump        the loop that moves the bytes
    options     the command line
"""
