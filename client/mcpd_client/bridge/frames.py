"""How messages are told apart: one a line, or behind a `Content-Length` header if a host's first one is.

A message ends with a newline here and holds no other. What is too long is skipped while it comes, and its
beginning and its end are left in `too_long`, as one, until somebody takes them out.
"""

# What the protocol's peers agree on for one message.
MAX_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 8192
# How much of each end is kept of what was too long: its id stands in one of them.
KEPT_BYTES = 1024
HEADER = b"content-length:"
BLANKS = b" \t\r\n"


class Lines:
    """Cuts a stream at its line ends; blank lines do not count.

    Args:
        max_bytes: of one line; more than what is ever fed at once.
    """

    has_headers = False

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.too_long: list[bytes] = []
        self._max_bytes = max_bytes
        # Of the line that has not ended: its parts, and how many bytes they are.
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take in what has come; return the messages that are complete by now."""
        first, *more = data.split(b"\n")
        self._add(first)
        if not more:
            return []
        last = more.pop()
        complete = [self._take(), *more]
        self._add(last)
        return [line for part in complete if (line := _tidy(part))]

    def rest(self) -> list[bytes]:
        """Return what came last, without a line end."""
        line = _tidy(self._take())
        return [line] if line else []

    def _add(self, part: bytes) -> None:
        """Take a part of a line; of one that is too long no more than its two ends are kept."""
        self._size += len(part)
        if self._size <= self._max_bytes:
            self._parts.append(part)
        else:
            self._parts = [_ends(b"".join((*self._parts, part)))]

    def _take(self) -> bytes:
        size, self._size = self._size, 0
        line, self._parts = b"".join(self._parts), []
        if size <= self._max_bytes:
            return line
        self.too_long.append(line)
        return b""


class Framed:
    """Cuts a stream by the lengths that its headers say."""

    has_headers = True

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.too_long: list[bytes] = []
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        # How much there must be before it makes sense to look: a large body is put together once.
        self._wanted = 0
        # How much of a body that is too long is still to come, and what is kept of it.
        self._skipped = 0
        self._kept = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take in what has come; return the messages that are complete by now."""
        self._parts.append(data)
        self._size += len(data)
        complete: list[bytes] = []
        while self._size and self._size >= self._wanted:
            buffer = b"".join(self._parts)
            used = self._step(buffer, complete)
            self._parts, self._size = [buffer[used:]], len(buffer) - used
            if not used:
                break
        return complete

    def rest(self) -> list[bytes]:
        """Return nothing: a message that is not complete says so."""
        return []

    def _step(self, buffer: bytes, complete: list[bytes]) -> int:
        """Take one thing from the beginning of `buffer`; return its size, 0 if it is not there yet."""
        self._wanted = 0
        if self._skipped:
            used = min(self._skipped, len(buffer))
            self._skipped -= used
            self._kept = _ends(self._kept + buffer[:used])
            if not self._skipped:
                self.too_long.append(self._kept)
                self._kept = b""
            return used
        start, length = _header(buffer)
        if not start:
            # What does not end is no header.
            return len(buffer) if len(buffer) > MAX_HEADER_BYTES else 0
        if length > self._max_bytes:
            self._skipped = length
            return start
        if len(buffer) < start + length:
            self._wanted = start + length
            return 0
        # A string cannot hold a raw line break, so that every one of them is white space.
        if body := _tidy(buffer[start : start + length].replace(b"\n", b" ")):
            complete.append(body)
        return start + length


class HostFrames:
    """What a host sends, cut into messages, and what it gets, in the same frames as it uses itself.

    Attributes:
        too_long: the ends of messages that were skipped.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._beginning = b""
        self._frames: Lines | Framed | None = None

    @property
    def too_long(self) -> list[bytes]:
        """The ends of messages that were skipped, both of one together."""
        return self._frames.too_long if self._frames else []

    def feed(self, data: bytes) -> list[bytes]:
        """Take in what the host has sent; return the messages that are complete by now."""
        if self._frames is None:
            data = self._beginning = (self._beginning + data).lstrip(BLANKS)
            if len(data) < len(HEADER) and b"\n" not in data:
                return []
            self._decide()
        assert self._frames is not None  # noqa: S101
        return self._frames.feed(data)

    def rest(self) -> list[bytes]:
        """Return what came last, without a line end."""
        if self._frames is None:
            self._decide()
            self.feed(self._beginning)
        assert self._frames is not None  # noqa: S101
        return self._frames.rest()

    def wrap(self, line: bytes) -> tuple[bytes, ...]:
        """Return the parts in which a message goes out to the host."""
        if self._frames is None or not self._frames.has_headers:
            return (line,)
        return (b"Content-Length: %d\r\n\r\n" % (len(line) - 1), line[:-1])

    def _decide(self) -> None:
        has_headers = self._beginning[: len(HEADER)].lower() == HEADER
        self._frames = Framed(self._max_bytes) if has_headers else Lines(self._max_bytes)


def _ends(text: bytes) -> bytes:
    """Return the beginning and the end of what is too long; what has been cut before may get longer again."""
    return text if len(text) <= 2 * KEPT_BYTES else text[:KEPT_BYTES] + text[-KEPT_BYTES:]


def _tidy(line: bytes) -> bytes:
    """Return a line with its end and without blanks around it; nothing if it is blank."""
    if line[:1] != b"{" or line[-1:] != b"}":
        line = line.strip(BLANKS)
    return line + b"\n" if line else line


def _header(buffer: bytes) -> tuple[int, int]:
    """Return where the body begins, 0 if the header is not complete, and the length that the header says.

    One that says none, or nonsense, has an empty body: what follows it is read as the next header.
    """
    ends = [(place, place + len(end)) for end in (b"\r\n\r\n", b"\n\n") if (place := buffer.find(end)) >= 0]
    if not ends:
        return 0, 0
    stop, start = min(ends)
    for line in buffer[:stop].split(b"\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == HEADER[:-1] and value.strip().isdigit() and len(value) < 20:
            return start, int(value)
    return start, 0
