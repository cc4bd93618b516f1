"""The side of a bridge that faces the daemon: one connection after the other, and a start where there is none."""

from time import monotonic

from mcpd_client.bridge import answers, lines
from mcpd_client.bridge.answers import Failure
from mcpd_client.bridge.frames import MAX_BYTES, Lines
from mcpd_client.bridge.link import HELLO_ID, Absent, Busy, Finder, Start, hello_line, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Iterable, Mapping

    from mcpd_client.bridge.options import BridgeOptions
    from mcpd_client.bridge.session import Session

# Below the size at which the allocator asks the kernel each time.
READ_BYTES = 65536
# The daemon's own limit for a message, and some room for the envelope.
MAX_ANSWER_BYTES = MAX_BYTES + 65536
# A daemon that has accepted says hello at once, unless it is stuck.
HELLO_SECONDS = 3.5
FIRST_DELAY_SECONDS = 0.1
MAX_DELAY_SECONDS = 5.0
# A daemon that has lived so long is not one that ends as soon as somebody comes.
STABLE_SECONDS = 10.0
# One that is being replaced may not accept, or accept and leave; that is no reason to tell anybody yet.
MAX_MISSES = 5
# How long after its end a daemon that somebody else starts may take to come back before a request hears of it.
RETURN_SECONDS = 3.0


class Uplink:
    """The connection to the daemon, or the way to the next one. Nothing here waits.

    Args:
        options: what the host is to be shown, and where the daemon is.
        environ: the environment.
        session: what is sent, and who takes what comes.
        tell: called with lines for the host.
        note: called with a sentence for stderr.

    Attributes:
        is_up: whether there is a daemon that has said hello.
        is_blocked: whether it has not taken all that there is to send.
        is_ending: set it when there will be no more to send than what the session has.
    """

    def __init__(
        self,
        options: "BridgeOptions",
        environ: "Mapping[str, str]",
        session: "Session",
        *,
        tell: "Callable[[Iterable[bytes]], None]",
        note: "Callable[[str], None]",
    ) -> None:
        self.is_up = False
        self.is_blocked = False
        self.is_ending = False
        self._options = options
        self._environ = environ
        self._session = session
        self._tell = tell
        self._note = note
        self._finder = Finder(options.path("--socket"), environ)
        self._sock: socket | None = None
        self._frames = Lines(MAX_ANSWER_BYTES)
        self._hello = b""
        # Until when a daemon must have said hello, and since when it has.
        self._deadline = 0.0
        self._up_since = 0.0
        self._lost_at = -RETURN_SECONDS
        # Whether nothing more can be sent; there may still be something to read.
        self._is_deaf = False
        self._start: Start | None = None
        # The first try is made for a host that is about to ask.
        self._is_first = True
        self._next_try = 0.0
        self._delay = FIRST_DELAY_SECONDS
        self._misses = 0

    @property
    def fd(self) -> int:
        """The connection's descriptor, -1 if there is none."""
        return -1 if self._sock is None else self._sock.fileno()

    @property
    def start_fd(self) -> int:
        """What a start that is under way writes to, -1 if there is none."""
        return -1 if self._start is None else self._start.fd

    @property
    def is_likely(self) -> bool:
        """Whether there is a daemon, or one is on its way."""
        return self._sock is not None or self._start is not None or self._is_first

    def hurry(self) -> None:
        """Somebody waits: look for a daemon now, if there is none."""
        if self._sock is None and self._start is None and not self._misses:
            self._next_try = 0.0

    def deadline(self) -> float | None:
        """Return when `tick` has something to do, None if it does not depend on the time."""
        times = [] if self.is_up else [self._deadline if self._sock is not None else self._next_try]
        if self._start is not None:
            times.append(self._start.deadline)
        if not self.is_up and (due := self._session.next_overdue()) is not None:
            times.append(due)
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self._sock is None and now >= self._next_try:
            self._try(now)
        elif self._sock is not None and not self.is_up and now >= self._deadline:
            self._lose(Failure("the daemon does not answer", "mcpd down --force"))
        if self._start is not None and now >= self._start.deadline:
            self._start.give_up()
        if not self.is_up and (told := self._session.overdue(now)):
            self._tell(told)

    def read(self) -> None:
        """Take in what the daemon has sent."""
        if self._sock is None:
            return
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(None)
            return
        shown = []
        for line in self._frames.feed(data):
            if not self.is_up:
                self._greeted(line)
            elif (passed := self._session.from_daemon(line)) is not None:
                shown.append(passed)
                if self._session.is_turned_down and (why := answers.reason(line)):
                    self._note(why)  # most hosts only say that there is no connection
        self._tell(shown)
        if self._frames.too_long:
            self._lose(Failure("the daemon sent a message that is larger than it may be"))

    def flush(self) -> None:
        """Send what the daemon takes.

        That nothing can be sent any more is not the end: answers may have come before it.
        """
        if self._sock is None or self.is_blocked or self._is_deaf:
            return
        try:
            if self._hello:
                self._hello = self._hello[self._sock.send(self._hello) :]
            while self.is_up and (parts := self._session.parts()):
                self._session.sent(self._sock.sendmsg(parts))
            if self.is_ending and self.is_up:
                self._sock.shutdown(1)
                self._is_deaf = True
        except BlockingIOError:
            self.is_blocked = True
        except OSError:
            self._is_deaf = True

    def read_start(self) -> None:
        """Take in what the start that is under way says, and go on when it is over."""
        if self._start is None or not self._start.read():
            return
        failure = self._start.finish()
        self._start = None
        if self._sock is not None:
            return
        found = self._finder.connect()
        if isinstance(found, Failure):
            self._fail(failure or found)
        else:
            self._connected(found, monotonic())

    def _greeted(self, line: bytes) -> None:
        """Take what a daemon says before it is known to have understood the hello."""
        if lines.look(line).id != HELLO_ID:
            return
        if (failure := refusal(line)) is not None:
            self._lose(failure)
            return
        self.is_up, self._is_first, self._misses = True, False, 0
        self._up_since = monotonic()
        self._session.resume()

    def _lose(self, failure: Failure | None) -> None:
        """Note that this connection is over, and why, if it was of no use or ought to have gone on."""
        assert self._sock is not None  # noqa: S101
        self._sock.close()
        now, was_up = monotonic(), self.is_up
        self._sock, self.is_up, self.is_blocked, self._is_deaf = None, False, False, False
        if was_up and now > self._up_since + STABLE_SECONDS:
            self._delay = FIRST_DELAY_SECONDS
        if was_up:
            self._lost_at = now
            self._tell(self._session.refuse_all() if self.is_ending else self._session.lost())
        if failure is not None:
            self._fail(failure)
        elif not was_up:
            self._missed(Busy("the daemon ended the connection before it said anything", "mcpd status"), now)
            return
        elif not self.is_ending:
            self._note("the daemon is gone; waiting for the next one")
        self._wait_a_while(now)
        if failure is None and self._session.wants_daemon:
            self._next_try = now

    def _try(self, now: float) -> None:
        """Look for a daemon; start one if there is none and somebody waits for it."""
        self._wait_a_while(now)
        found = self._finder.connect()
        if not isinstance(found, Failure):
            self._connected(found, now)
        elif self._start is not None or not (self._is_first or self._session.wants_daemon):
            return
        elif isinstance(found, Absent) and self._options.autostart:
            self._begin_start()
        elif isinstance(found, Busy) or (isinstance(found, Absent) and now < self._lost_at + RETURN_SECONDS):
            self._missed(found, now)
        else:
            self._fail(found)

    def _connected(self, sock: "socket", now: float) -> None:
        self._sock = sock
        self._frames = Lines(MAX_ANSWER_BYTES)
        self._deadline = now + HELLO_SECONDS
        self._hello = hello_line(
            self._options,
            self._environ,
            resumed=self._session.resumed,
            next_question=self._session.next_question,
        )
        self.flush()

    def _begin_start(self) -> None:
        try:
            self._start = Start(self._options, self._environ)
        except OSError as error:
            self._fail(Failure(f"the daemon cannot be started: {error.strerror}"))

    def _missed(self, failure: Failure, now: float) -> None:
        """Try again soon, a few times: a daemon that is about to leave, or to come, behaves like this."""
        self._misses += 1
        if self._misses > MAX_MISSES:
            self._fail(failure)
            return
        self._next_try = now + FIRST_DELAY_SECONDS * 2 ** (self._misses - 1)

    def _fail(self, failure: Failure) -> None:
        """There is no daemon to be had now: say so to all who wait for one."""
        self._is_first, self._misses = False, 0
        self._note(f"{failure.message} (try: {failure.hint})" if failure.hint else failure.message)
        self._tell(self._session.fail(failure))

    def _wait_a_while(self, now: float) -> None:
        self._next_try = now + self._delay
        self._delay = min(2 * self._delay, MAX_DELAY_SECONDS)
