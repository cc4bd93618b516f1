"""Clients of mcpd, the daemon that owns MCP servers: standard library only, nothing of the daemon.

    from mcpd_client import Client

    with Client() as mcpd:
        print(mcpd.call("demo", "echo", {"text": "hi"}))

The names are loaded on first use, so that `import mcpd_client` costs nothing: the command line
starts faster than most of these modules import.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpd_client.errors import (
        ClientError,
        ConnectionLost,
        DaemonNotRunning,
        RequestFailed,
        RequestRefused,
        RequestTimeout,
        Withdrawn,
    )
    from mcpd_client.sync import Client

__all__ = [
    "Client",
    "ClientError",
    "ConnectionLost",
    "DaemonNotRunning",
    "RequestFailed",
    "RequestRefused",
    "RequestTimeout",
    "Withdrawn",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("mcpd_client.sync" if name == "Client" else "mcpd_client.errors"), name)
