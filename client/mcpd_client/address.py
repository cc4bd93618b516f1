"""Where the daemon's socket is, from an environment and a user id alone.

Nothing is imported here but `os`, since every call of the command line pays for it. The daemon
follows the same rule; it also writes `endpoint.json`, so that a process that was left nothing but
HOME finds a daemon that listens somewhere else.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# The size of `sun_path` on Linux, less the byte that ends it.
MAX_PATH_BYTES = 107


def home(environ: "Mapping[str, str]", uid: int) -> str:
    """Return the home directory: HOME, else what the password database says, else `/`."""
    if path := environ.get("HOME"):
        return path
    # Not imported above: almost every process has HOME.
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def socket_path(environ: "Mapping[str, str]", uid: int, *, run_root: str = "/run/user") -> str:
    """Return the absolute path on which a daemon of this user listens, or would.

    Args:
        environ: an empty variable counts as unset; so does a relative XDG_RUNTIME_DIR.
        uid: whose daemon; `run_root/uid` is used only if it is a directory of that user.
        run_root: where the system keeps the users' runtime directories.
    """
    if path := environ.get("MCPD_SOCKET"):
        return os.path.abspath(path)
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return f"{runtime}/mcpd/mcpd.sock"
    runtime = f"{run_root}/{uid}"
    if _is_own_directory(runtime, uid):
        return f"{runtime}/mcpd/mcpd.sock"
    return f"{home(environ, uid)}/.local/state/mcpd/run/mcpd.sock"


def endpoint_path(environ: "Mapping[str, str]", uid: int) -> str:
    """Return the file that names the socket in use; always under HOME, so that HOME is enough to find it."""
    return f"{home(environ, uid)}/.local/state/mcpd/endpoint.json"


def read_endpoint(path: str) -> str | None:
    """Return the socket that an `endpoint.json` names, or None if there is none to be had.

    The file is one flat object. Only the one string is read, so that no JSON parser is needed.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(4096).decode()
        start = text.index('"', text.index(":", text.index('"socket"')))
        from _json import scanstring

        found, _ = scanstring(text, start + 1)
    except (OSError, ValueError, SystemError):
        # SystemError is how the scanner fails where `json` has not been imported.
        return None
    return found if found.startswith("/") else None


def fallback_path(environ: "Mapping[str, str]", uid: int) -> str | None:
    """Return where else to look when nobody listens at `socket_path`; None if MCPD_SOCKET decides."""
    if environ.get("MCPD_SOCKET"):
        return None
    return read_endpoint(endpoint_path(environ, uid))


def is_too_long(path: str) -> bool:
    """Tell whether the kernel would refuse this path for a socket."""
    return len(os.fsencode(path)) > MAX_PATH_BYTES


def _is_own_directory(path: str, uid: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    # 0o040000 is S_IFDIR; `stat` as a module is one more import.
    return status.st_uid == uid and status.st_mode & 0o170000 == 0o040000
