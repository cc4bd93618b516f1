"""A program, not a module: start a daemon that has nothing to do with who asked for it.

Run as `python -I -S detach.py SECONDS COMMAND…` by `spawn.py`, with descriptors 0, 1 and 2 as the
daemon shall have them and a pipe at 3 for the verdict. It forks, so that the daemon is adopted by
init and never becomes a zombie of a long-lived caller; it stays until the daemon says that it is
ready, so that the caller learns how that went. The daemon gets a session of its own, `/` as its
working directory, default signal handling, and at descriptor 3 a pipe for the word `ready`.

The verdict is one line: `ready`, `exit N`, `signal N`, or `timeout` (the daemon is left alone then).
"""

import os
import sys
import time
from _signal import SIG_DFL, SIGPIPE, SIGXFSZ, signal  # type: ignore[import-not-found]  # no stub; `signal` costs enum
from select import POLLIN, poll

PIPE_FD = 3
# Above every descriptor that can be open: the limit would be too low for those inherited before it was lowered.
LAST_FD = 1 << 16


def main(arguments: list[str]) -> None:
    """Start the command and write the verdict; returns when the verdict is out."""
    seconds, command = float(arguments[0]), arguments[1:]
    os.closerange(PIPE_FD + 1, LAST_FD)
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(command, ready_write)
    os.close(ready_write)
    verdict = watch(pid, ready_read, seconds)
    try:  # noqa: SIM105 -- `contextlib` is one more module to load
        os.write(PIPE_FD, verdict.encode() + b"\n")
    except BrokenPipeError:
        pass  # whoever asked has gone; the daemon stays for the next


def become(command: list[str], ready_write: int) -> None:
    """Turn this process into the daemon; never returns."""
    try:
        os.setsid()
        os.chdir("/")
        # Python ignores these two, and what is ignored stays ignored across exec, down to every server.
        for number in (SIGPIPE, SIGXFSZ):
            signal(number, SIG_DFL)
        os.dup2(ready_write, PIPE_FD, inheritable=True)
        os.closerange(PIPE_FD + 1, LAST_FD)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def watch(pid: int, ready_read: int, seconds: float) -> str:
    """Wait until the daemon is ready or dead, whichever comes first."""
    deadline = time.monotonic() + seconds
    pidfd = os.pidfd_open(pid)
    waiting = poll()
    waiting.register(ready_read, POLLIN)
    waiting.register(pidfd, POLLIN)
    said = b""
    while (remaining := deadline - time.monotonic()) > 0:
        for fd, _ in waiting.poll(remaining * 1000):
            if fd == ready_read:
                chunk = os.read(ready_read, 64)
                said += chunk
                if said.startswith(b"ready"):
                    return "ready"
                if not chunk:
                    waiting.unregister(ready_read)
            else:
                return describe(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return "timeout"


def describe(status: int) -> str:
    """Put an exit status into words; negative is the signal that killed."""
    return f"signal {-status}" if status < 0 else f"exit {status}"


if __name__ == "__main__":
    main(sys.argv[1:])
