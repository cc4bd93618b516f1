"""The guardian: a fork server that ends every server it has started when the daemon is gone.

    python -I -S guardian.py FD SCOPE INSTANCE

A single thread, the standard library only, nothing of mcpd. It is a child subreaper, so that whatever a server
forks and forgets comes to it; each server gets its own session, SIGKILL should the guardian die, and an inherited
mark that survives `setsid`, a double fork, and `execve` with an empty environment: the soft limit of RLIMIT_RTTIME,
which bounds real-time threads only and is set to tens of thousands of years.

At its start it ends what carries the mark of an earlier daemon of the same place; when the daemon's end of its
socket closes, however the daemon ended, it ends everything below it and then itself.

Frames, both ways: four bytes of length, then `marshal`. To it: `("spawn", n)` with four descriptors, of which
the last one is a file with `(argv, env, cwd)`, however long that is; `("end", n, pid)`; `("ping", n)`. From it:
`("spawned", n, pid)` with a pidfd, `("failed", n, errno, what)`, `("ended", n, wait status or None)`, `("pong", n)`.
"""

import array
import contextlib
import errno
import marshal
import os
import resource
import select
import signal
import sys
import time
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, MSG_CTRUNC, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

RLIMIT_RTTIME, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 15, 1, 36
# Highest bit that a limit may have, 24 bits of place, 22 of daemon, 14 of server.
MARK = 1 << 61
GUARDIAN = 0x3FFF
# What is killed is gone in a moment, or stuck inside the kernel.
END_SECONDS, STEP_SECONDS = 5.0, 0.005
# What forks and leaves all the time slips through one look at all processes, not through so many.
LOOKS = 10
HEAD_BYTES = 4
# Pipes for stdin, stdout and stderr, and the file.
SPAWN_FDS = 4


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the process that orphans below this one come to."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def mark_of(scope: int, instance: int, server: int) -> int:
    """Return the limit that marks the processes of one server of one daemon of one place."""
    return MARK | scope << 36 | instance << 14 | server


def read_mark(pid: int) -> int:
    """Return the mark of a process, or 0."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/limits", "rb") as file:
        return int(file.read().partition(b"Max realtime timeout")[2].split()[0])
    return 0


def children(pid: int) -> list[int]:
    """Return the children of a process, zombies too."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return everything below a process, in the order of a walk."""
    found, todo = [], children(pid)
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children(one)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def kill_tree(pid: int) -> None:
    """SIGKILL a process and all below it."""
    for one in (pid, *descendants(pid)):
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)


def sweep_dead(scope: int, instance: int) -> None:
    """End what earlier daemons of this place have left behind; the lock says that they are dead."""

    def is_left_behind(mark: int) -> bool:
        return mark >> 36 == (MARK >> 36 | scope) and mark >> 14 & 0x3FFFFF != instance

    end, looks = time.monotonic() + END_SECONDS, 1
    while looks and time.monotonic() < end:
        looks -= 1
        # The youngest first: by the time the others have been looked at, what moves is somebody else.
        for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc"))), reverse=True):
            if is_left_behind(read_mark(pid)) and pid != os.getpid() and is_alive(pid):
                looks = LOOKS
                with contextlib.suppress(OSError), open(os.pidfd_open(pid), "rb", 0) as file:
                    if is_left_behind(read_mark(pid)):  # its pid might have been somebody else's by now
                        signal.pidfd_send_signal(file.fileno(), signal.SIGKILL)


class Server:
    """A server that was started: its leader and its mark; `ends_at` once it is being ended."""

    def __init__(self, pid: int, mark: int) -> None:
        self.pid, self.mark = pid, mark
        self.request = 0
        self.ends_at = 0.0

    def kill(self) -> bool:
        """Kill its group and all below its leader; say whether the leader was dead already."""
        was_alive = is_alive(self.pid)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        kill_tree(self.pid)
        return not was_alive


def run_child(fds: list[int], report: int, mark: int, parent: int) -> None:
    """Become the server; on failure report errno and what it was about. Never returns."""
    what = "start"
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died too early for that signal
            os._exit(127)
        os.setsid()
        with open(fds.pop(), "rb") as file:  # what the guardian holds keeps these numbers above 4
            argv, env, cwd = marshal.load(file)  # noqa: S302  # from the daemon
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.dup2(report, 3, inheritable=False)
        os.closerange(4, 1 << 16)
        report = 3
        for limit, values in ((RLIMIT_RTTIME, (mark, resource.RLIM_INFINITY)), (resource.RLIMIT_CORE, (0, 0))):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(limit, values)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("300")  # should memory run out, a server has to go, not the daemon
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not None:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        what = "cwd"
        os.chdir(cwd)
        what = "exec"
        os.execve(argv[0], argv, env)  # noqa: S606  # running configured commands is the purpose
    except OSError as problem:
        os.write(report, marshal.dumps((problem.errno or 0, what)))
    finally:
        os._exit(127)


class Guardian:
    """The servers and the link to the daemon."""

    def __init__(self, link: socket, scope: int, instance: int) -> None:
        self.link, self.scope, self.instance, self.pid = link, scope, instance, os.getpid()
        self.servers: dict[int, Server] = {}
        self.starting: dict[int, tuple[int, Server]] = {}  # by the pipe that tells how exec went
        self.buffer = bytearray()
        self.fds: list[int] = []
        self.number = 0
        self.poll = select.poll()
        self.poll.register(link, select.POLLIN)
        self.wake, self.woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.poll.register(self.wake, select.POLLIN)
        signal.set_wakeup_fd(self.woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Serve until the daemon is gone."""
        ending: list[Server] = []
        while True:
            for fd, _ in self.poll.poll(STEP_SECONDS * 1000 if ending else None):
                if fd == self.wake:
                    with contextlib.suppress(OSError):
                        os.read(self.wake, 4096)
                elif fd in self.starting:
                    self.started(fd)
                elif not self.receive():
                    return
            if ending := [server for server in self.servers.values() if server.ends_at]:
                self.end_step(ending)
            for pid in self.orphans():
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)

    def receive(self) -> bool:
        """Take what the daemon sends; False if it is gone."""
        try:
            data, ancillary, flags, _ = self.link.recvmsg(1 << 16, 4096, MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        fds = array.array("i")
        for _, _, content in ancillary:  # nothing else than descriptors can come
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        if flags & MSG_CTRUNC:  # we have no room for all of them
            fds.extend([-1] * (-len(fds) % SPAWN_FDS or SPAWN_FDS))
        self.fds += fds
        self.buffer += data
        while len(self.buffer) >= HEAD_BYTES:
            size = int.from_bytes(self.buffer[:HEAD_BYTES], "big")
            if len(self.buffer) < HEAD_BYTES + size:
                break
            frame = marshal.loads(bytes(self.buffer[HEAD_BYTES : HEAD_BYTES + size]))  # noqa: S302  # from our parent
            del self.buffer[: HEAD_BYTES + size]
            getattr(self, f"do_{frame[0]}")(*frame[1:])
        return bool(data)

    def send(self, frame: tuple, fd: int | None = None) -> None:  # type: ignore[type-arg]  # typing would cost memory
        """Send one frame, with a descriptor perhaps."""
        body = marshal.dumps(frame)
        rights = [] if fd is None else [(SOL_SOCKET, SCM_RIGHTS, array.array("i", [fd]))]
        with contextlib.suppress(OSError):
            self.link.sendmsg([len(body).to_bytes(HEAD_BYTES, "big"), body], rights)

    def do_ping(self, request: int) -> None:
        """Say that we are there."""
        self.send(("pong", request))

    def do_spawn(self, request: int) -> None:
        """Fork a server."""
        fds, self.fds = self.fds[:SPAWN_FDS], self.fds[SPAWN_FDS:]
        mark, ends = self.new_mark(), [-1]
        try:
            if -1 in fds:
                raise OSError(errno.EMFILE, "")
            told, report = ends = [*os.pipe2(os.O_CLOEXEC)]
            if not (pid := os.fork()):
                run_child(fds, report, mark, self.pid)
            self.starting[told] = request, Server(pid, mark)
            self.poll.register(told, select.POLLIN)
            ends = [report]
        except OSError as problem:
            self.send(("failed", request, problem.errno, "fork"))
        finally:
            for fd in {*fds, *ends} - {-1}:
                os.close(fd)

    def known(self) -> list[Server]:
        """Return all servers, also those of which we do not know yet how exec went."""
        return [*self.servers.values(), *(server for _, server in self.starting.values())]

    def new_mark(self) -> int:
        """Return a mark that no living server has: the numbers begin again one day."""
        used = {server.mark for server in self.known()}
        while True:
            self.number = self.number % (GUARDIAN - 1) + 1
            if (mark := mark_of(self.scope, self.instance, self.number)) not in used:
                return mark

    def started(self, told: int) -> None:
        """Tell the daemon how exec went; the pidfd is made before anything can be reaped."""
        said = os.read(told, 4096)
        self.poll.unregister(told)
        os.close(told)
        request, server = self.starting.pop(told)
        if said:
            os.waitpid(server.pid, 0)
            self.send(("failed", request, *marshal.loads(said)))  # noqa: S302  # from our child before its exec
            return
        self.servers[server.pid] = server
        try:
            fd = os.pidfd_open(server.pid)
            self.send(("spawned", request, server.pid), fd)
            os.close(fd)
        except OSError as problem:
            self.send(("failed", request, problem.errno, "fork"))
            self.do_end(0, server.pid)

    def do_end(self, request: int, pid: int) -> None:
        """Begin to end a server, by force."""
        if (server := self.servers.get(pid)) is None:
            self.send(("ended", request, None))
        else:
            server.request, server.ends_at = request, time.monotonic() + END_SECONDS

    def end_step(self, ending: list[Server]) -> None:
        """Kill what is left of servers; done with those of which nothing is, or nothing more can be done.

        Nothing is, if the leader was dead before we looked, and no orphan was there: one that has ended
        counts, too, since it may have left a child meanwhile, which comes to us.
        """
        dead = [server for server in ending if server.kill()]
        found = [(pid, read_mark(pid)) for pid in self.orphans()]
        for server in ending:
            left = [pid for pid, mark in found if mark == server.mark]
            for pid in left:
                kill_tree(pid)
            if (server in dead and not left) or time.monotonic() > server.ends_at:
                del self.servers[server.pid]
                pid, status = os.waitpid(server.pid, os.WNOHANG)
                self.send(("ended", server.request, status if pid else None))

    def orphans(self) -> list[int]:
        """Return what has come to us; leaders are not reaped before they are ended, so that their pids stay theirs."""
        leaders = {server.pid for server in self.known()}
        return [pid for pid in children(self.pid) if pid not in leaders]

    def die(self) -> None:
        """End everything below: every orphan comes to us, so nothing can hide."""
        end = time.monotonic() + END_SECONDS
        while children(self.pid) and time.monotonic() < end:
            for pid in children(self.pid):
                kill_tree(pid)
            with contextlib.suppress(OSError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(STEP_SECONDS / 5)


def main() -> None:
    """Run as the guardian of the daemon at the other end of the descriptor."""
    fd, scope, instance = map(int, sys.argv[1:4])
    os.set_inheritable(fd, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # its end is the daemon's end
    adopt_orphans()
    with contextlib.suppress(ValueError, OSError):
        os.setsid()  # what is sent to the daemon's whole group must not meet both
        resource.setrlimit(RLIMIT_RTTIME, (mark_of(scope, instance, GUARDIAN), resource.RLIM_INFINITY))
    guardian = Guardian(socket(AF_UNIX, SOCK_STREAM, 0, fd), scope, instance)
    sweep_dead(scope, instance)
    try:
        guardian.run()
    finally:
        guardian.die()


if __name__ == "__main__":
    main()
