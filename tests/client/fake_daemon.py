"""A daemon for tests of the start: takes a lock, listens, says that it is ready, answers with facts about itself.

    python -I -S fake_daemon.py SOCKET STARTS [how]

Appends its pid to the file STARTS. `how` makes it fail: `crash`, `mute` (never ready), `foreign`
(ready, but listening on another path).
"""

import _signal
import fcntl
import json
import os
import socket
import sys
import threading


def facts(name):
    """Return something about this process as seen from inside."""
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "sid": os.getsid(0),
        "cwd": os.getcwd(),
        "fds": {fd: target for fd in os.listdir("/proc/self/fd") if (target := target_of(fd))},
        "blocked": sorted(_signal.pthread_sigmask(_signal.SIG_BLOCK, [])),
        "status": open("/proc/self/status").read(),
        "environ": dict(os.environ),
    }


def target_of(fd):
    """Return what a descriptor is open on; None if it has gone, or is the one that lists them all."""
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
    return None if target.startswith("/proc/") else target


def serve(connection):
    """Answer every request on one connection."""
    with connection, connection.makefile("rb") as lines:
        for line in lines:
            request = json.loads(line)
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": facts(request["method"])}
            connection.sendall(json.dumps(reply).encode() + b"\n")


def main(path, starts, how=""):
    """Run until killed."""
    with open(starts, "a") as file:
        file.write(f"{os.getpid()}\n")
    if how == "crash":
        print("first line", flush=True)
        print("error: the configuration is wrong", file=sys.stderr)
        sys.exit(9)
    if how == "mute":
        threading.Event().wait()
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(75)
    listener = socket.socket(socket.AF_UNIX)
    if os.path.exists(path):
        os.unlink(path)
    listener.bind(f"{path}.foreign" if how == "foreign" else path)
    listener.listen(512)
    os.write(3, b"ready\n")
    os.close(3)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


main(*sys.argv[1:])
