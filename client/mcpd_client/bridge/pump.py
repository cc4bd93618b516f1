"""The loop that moves messages between a host's pipes and the daemon's socket.

One thread, one poll. Each side is read only while there is room for what the other has not taken, so that
neither a host that never reads nor a daemon that is busy makes a bridge grow.
"""

import os
from _signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, getsignal, signal  # type: ignore[import-not-found]  # no stub; `signal` costs enum
from select import POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, poll
from time import monotonic

from mcpd_client import __version__
from mcpd_client.bridge import answers, lines
from mcpd_client.bridge.frames import MAX_BYTES, HostFrames
from mcpd_client.bridge.outlet import Outlet
from mcpd_client.bridge.session import Session
from mcpd_client.bridge.uplink import READ_BYTES, Uplink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpd_client.bridge.lines import Message
    from mcpd_client.bridge.options import BridgeOptions

STDIN, STDOUT, STDERR = 0, 1, 2
GONE = POLLERR | POLLHUP | POLLNVAL
# What may wait for either side; a single message may be larger.
ROOM_BYTES = 1024 * 1024
# After the host's last word: for an answer to what has no id, and for a host that does not read.
GOODBYE_SECONDS = 0.25
UNREAD_SECONDS = 5.0
MAX_NOTE_BYTES = 2048


def run(options: "BridgeOptions") -> int:
    """Be the MCP server of the host at stdin and stdout until it is done; return the exit code."""
    pump = Pump(options)

    def leave(number: int, frame: object) -> None:
        # At once: whatever is in a buffer, the host has no use for it.
        pump.restore()
        os._exit(128 + number)

    for number in (SIGTERM, SIGINT, SIGHUP):
        if getsignal(number) != SIG_IGN:
            signal(number, leave)
    try:
        pump.run()
    finally:
        pump.restore()
    return 0


class Pump:
    """One bridge at work."""

    def __init__(self, options: "BridgeOptions") -> None:
        name = options.servers[0] if len(options.servers) == 1 else "mcpd"
        self._is_quiet = options.quiet
        self._session = Session(name, __version__)
        self._host = HostFrames()
        self._outlet = Outlet(STDOUT)
        self._uplink = Uplink(options, os.environ, self._session, tell=self._tell, note=self._note)
        self._poll = poll()
        # What the kernel has been asked to watch, and for what.
        self._watched: dict[int, int] = {}
        self._noted = ""
        self._is_ended = False
        self._leave_at = 0.0

    def restore(self) -> None:
        """Leave the standard files as they were found."""
        self._outlet.restore()

    def run(self) -> None:
        """Carry messages until the host has said its last word and got its last answer, or does not listen."""
        if os.isatty(STDIN):
            self._note("waiting for the lines of a host on stdin; for people: mcpd bridge --help")
        while not self._is_done() and not self._outlet.is_broken:
            self._uplink.tick(monotonic())
            self._watch()
            for fd, events in self._poll.poll(self._patience()):
                if fd == STDOUT and events & GONE:
                    return
                self._serve(fd, events)

    def _serve(self, fd: int, events: int) -> None:
        if fd == STDIN:
            self._read_host()
        elif fd == STDOUT:
            self._outlet.flush()
        elif fd == self._uplink.start_fd:
            self._uplink.read_start()
        elif fd == self._uplink.fd:
            if events & ~POLLOUT:
                self._uplink.read()
            self._uplink.is_blocked = False
        self._uplink.flush()

    def _read_host(self) -> None:
        try:
            data = os.read(STDIN, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._take(self._host.feed(data) if data else self._host.rest())
        if not data:
            self._is_ended = self._uplink.is_ending = True
            self._leave_at = monotonic() + GOODBYE_SECONDS

    def _take(self, messages: "Iterable[bytes]") -> None:
        now, is_likely = monotonic(), self._uplink.is_likely
        for line in messages:
            if self._session.from_host(line, now, is_reachable=is_likely):
                self._uplink.hurry()
                is_likely = True
        while self._host.too_long:
            self._refuse(lines.look_at_ends(self._host.too_long.pop(0)), now)

    def _refuse(self, message: "Message", now: float) -> None:
        """Answer a message that is not passed on; one that is an answer itself becomes an error for the daemon."""
        refusal = answers.too_long(message.id, MAX_BYTES)
        if message.kind == lines.ANSWER:
            self._session.from_host(refusal, now, is_reachable=self._uplink.is_likely)
        else:
            self._tell([refusal])

    def _tell(self, messages: "Iterable[bytes]") -> None:
        for line in messages:
            self._outlet.put(self._host.wrap(line))
        self._outlet.flush()

    def _is_done(self) -> bool:
        """Tell whether the host has said its last word and has got all that it will get."""
        if not self._is_ended:
            return False
        if self._session.is_waiting and not self._outlet.size:
            return False
        return monotonic() >= self._end() or (self._uplink.fd < 0 and not self._outlet.size)

    def _end(self) -> float:
        """Return how long the bridge stays after the host's last word for what nobody is sure to want."""
        return max(self._leave_at, self._outlet.progress + UNREAD_SECONDS) if self._outlet.size else self._leave_at

    def _watch(self) -> None:
        """Tell the kernel what to wait for: what there is room for, and what there is to write.

        That a pipe's other end has gone is reported as often as it is asked, so that one is not watched at
        all which is not to be read now.
        """
        has_room = self._outlet.size < ROOM_BYTES
        wanted = {STDOUT: POLLOUT if self._outlet.size else 0}
        if not self._is_ended and self._session.queued_bytes < ROOM_BYTES and (has_room or self._uplink.is_up):
            wanted[STDIN] = POLLIN
        if events := (POLLIN if has_room else 0) | (POLLOUT if self._uplink.is_blocked else 0):
            wanted[self._uplink.fd] = events
        wanted[self._uplink.start_fd] = POLLIN
        wanted.pop(-1, None)
        if wanted != self._watched:
            for fd in self._watched.keys() - wanted.keys():
                self._poll.unregister(fd)
            for fd, events in wanted.items():
                self._poll.register(fd, events)
            self._watched = wanted

    def _patience(self) -> float | None:
        """Return how many milliseconds to wait for something to happen, None for as long as it takes."""
        now = monotonic()
        times = [] if (due := self._uplink.deadline()) is None else [due]
        # What is past is no reason to wake up: an answer is still to come, and that may take its time.
        if self._is_ended and (end := self._end()) > now:
            times.append(end)
        # One more, since what is rounded down would be due a moment too early.
        return max((min(times) - now) * 1000 + 1, 0) if times else None

    def _note(self, text: str) -> None:
        """Say something on stderr, once, and only if that cannot block."""
        if text == self._noted or self._is_quiet:
            return
        self._noted = text
        ready = poll()
        ready.register(STDERR, POLLOUT)
        if any(events & POLLOUT for _, events in ready.poll(0)):
            line = f"mcpd bridge: {text}".encode("utf-8", "replace").replace(b"\n", b" ")[:MAX_NOTE_BYTES]
            try:  # noqa: SIM105 -- `contextlib` is one more module to load
                os.write(STDERR, line + b"\n")
            except OSError:
                pass  # nobody is there to be told
