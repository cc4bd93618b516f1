"""The first thing that `mcpd` runs: `call` and `tools` in less than twice the time of an empty Python.

The daemon parses the arguments and renders the result, so that nothing is needed here but a socket
and two functions on strings: argv goes out in one `mcpd/cli` line, and exit code, stdout and stderr
come back in one. Whatever does not fit (an option that concerns the client, a file to read, no
daemon, a notification, a question, an error) goes on in `mcpd_client.cli`, with the open connection if the
request is out already: a request that the daemon can have read is never sent twice.

Imports are the price of every call. They are limited to `sys`, `os` and the C modules `_socket` and
`_json`; a test holds them to that.
"""

import os
import sys
from _json import encode_basestring, scanstring
from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket

from mcpd_client.address import fallback_path, socket_path

# What the daemon parses itself. Any other option is looked at by the full command line first.
PASSED_OPTIONS = frozenset(
    ("--all", "--args", "--field", "--json", "--max-bytes", "--no-check", "--schema", "--timeout", "-q")
)
REPLY_START = b'{"jsonrpc":"2.0","id":1,"result":{"exit":'
# After this long without a word the full command line asks the daemon whether it is still there.
PATIENCE_SECONDS = 30
# A Unix socket hands over about as much at once.
READ_BYTES = 262144
INTERRUPTED = "interrupted; the call may have run"
INTERRUPTED_JSON = '{"error":{"code":46,"class":"interrupted","message":"interrupted","data":{"may_have_run":true}}}'


def main() -> int:
    """Run the command line of this process; the entry point of the script `mcpd`."""
    argv = sys.argv[1:]
    if argv[:1] == ["daemon"] and is_daemon(argv):
        from mcpd.__main__ import main as daemon

        return daemon(argv[1:])
    try:
        status = run_bridge(argv[1:]) if argv[:1] == ["bridge"] and has_standard_files() else None
        if status is None:
            status = run(argv) if is_plain(argv) and has_standard_files() else None
        if status is None:
            from mcpd_client.cli.main import main as run_fully

            return run_fully(argv)
    except KeyboardInterrupt:
        # The connection closes with the process, and that cancels the call.
        write_text(2, f"{INTERRUPTED_JSON if '--json' in argv else INTERRUPTED}\n")
        status = 130
    # Taking the interpreter apart would cost a tenth of the whole call, and nothing is left to flush.
    os._exit(status)


def is_daemon(argv: list[str]) -> bool:
    """Whether `mcpd daemon` needs nothing of the full command line: no help, no global option."""
    return all(word in ("--config", "--socket", "--log-level", "--ready-fd") for word in argv[1::2])


def run_bridge(arguments: list[str]) -> int | None:
    """Be a host's MCP server for as long as it likes; None if the full command line has something to say first."""
    from mcpd_client.bridge.options import read_plainly

    options = read_plainly(arguments)
    if options is None:
        return None
    from mcpd_client.bridge.pump import run as pump

    return pump(options)


def is_plain(argv: list[str]) -> bool:
    """Tell whether the daemon alone can make sense of these arguments: no file, no option of the client."""
    if not argv or argv[0] not in ("call", "tools"):
        return False
    previous = ""
    for argument in argv:
        # "=@" is a file's content, in whatever form it is given.
        if "=@" in argument or (previous == "--args" and argument.startswith("@")):
            return False
        if argument.startswith("-") and (argument.partition("=")[0] not in PASSED_OPTIONS or argument == "--args=-"):
            return False
        previous = argument
    return True


def has_standard_files() -> bool:
    """Tell whether descriptors 0, 1 and 2 are open; if not, a socket could become the standard output."""
    return not (sys.stdin is None or sys.stdout is None or sys.stderr is None)


def run(argv: list[str]) -> int | None:
    """Let the daemon run this command line and print what it answers.

    Returns:
        The exit code, or None if nothing has been done and the full command line should begin anew.
    """
    try:
        request = make_request(argv)
    except UnicodeEncodeError:
        return None
    sock = connect()
    if sock is None:
        return None
    try:
        # A send that fails has not delivered the newline: the daemon cannot run what has no end.
        sock.sendall(request)
        sock.settimeout(PATIENCE_SECONDS)
        received = read_answer(sock)
    except (BrokenPipeError, ConnectionResetError):
        # Linux reports a reset, not an end, exactly if the other side closed with bytes unread. The newline
        # is the last byte, so the daemon has not seen the request. It happens while a daemon is being replaced.
        sock.close()
        return None
    answer = parse_answer(received)
    if answer is None:
        from mcpd_client.cli.main import main as run_fully

        return run_fully(argv, sock, received)
    sock.close()
    return print_answer(*answer)


def make_request(argv: list[str]) -> bytes:
    """Return the `mcpd/cli` line; a UnicodeEncodeError means that an argument is not UTF-8."""
    extra = ""
    if os.isatty(1):
        extra = f',"columns":{os.get_terminal_size(1).columns or 80}'
    if wants_progress(argv):
        extra += ',"_meta":{"progressToken":1}'
    if argv[0] == "call" and can_ask():
        extra += ',"capabilities":{"elicitation":{"form":{},"url":{}}}'
    arguments = ",".join([encode_basestring(argument) for argument in argv])
    return (
        '{"jsonrpc":"2.0","id":1,"method":"mcpd/cli","params":{"argv":['
        f'{arguments}],"cwd":{encode_basestring(working_directory())}{extra}}}}}\n'
    ).encode()


def wants_progress(argv: list[str]) -> bool:
    """Tell whether somebody would see the progress of this command."""
    return argv[0] == "call" and os.isatty(2) and "-q" not in argv and "--json" not in argv


def can_ask() -> bool:
    """Tell whether there is a user at a terminal whom a server can ask something."""
    return os.isatty(0) and os.isatty(2)


def working_directory() -> str:
    """Return the working directory as text, `/` if it has been deleted."""
    try:
        return os.getcwdb().decode("utf-8", "replace")
    except OSError:
        return "/"


def connect() -> socket | None:
    """Return a connection to this user's daemon, or None if none listens where one should."""
    uid = os.geteuid()
    sock = connect_to(socket_path(os.environ, uid), uid)
    if sock is None and (path := fallback_path(os.environ, uid)) is not None:
        sock = connect_to(path, uid)
    return sock


def connect_to(path: str, uid: int) -> socket | None:
    """Return a connection to the process of this user that listens on `path`, or None."""
    sock = socket(AF_UNIX, SOCK_STREAM)
    try:
        # Without a timeout the kernel waits for room in the backlog; with one it would refuse at once.
        sock.connect(path)
        if peer_uid(sock) == uid:
            return sock
    except (OSError, ValueError):
        pass
    sock.close()
    return None


def peer_uid(sock: socket) -> int:
    """Return the user who listens at the other end: the second number of pid, uid, gid."""
    return int.from_bytes(sock.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[4:8], sys.byteorder)


def read_answer(sock: socket) -> bytes:
    """Return what came, whole lines of it; less if the connection ended or fell silent."""
    chunks = []
    try:
        while chunk := sock.recv(READ_BYTES):
            chunks.append(chunk)
            if chunk.endswith(b"\n"):
                break
    except TimeoutError:
        pass
    except ConnectionResetError:
        if not chunks:
            raise
    return b"".join(chunks)


def parse_answer(received: bytes) -> tuple[int, str, str] | None:
    """Take exit code, stdout and stderr out of a reply; None if it is anything but exactly that."""
    if not received.startswith(REPLY_START):
        return None
    try:
        text = received.decode()
        end = text.index(",", len(REPLY_START))
        status = int(text[len(REPLY_START) : end])
        out, end = _take_string(text, ',"stdout":"', end)
        err, end = _take_string(text, ',"stderr":"', end)
    except (ValueError, SystemError):
        # The scanner's own error is in `json.decoder`; if that has not been imported, it fails to raise it.
        return None
    return (status, out, err) if text[end:] == "}}\n" else None


def print_answer(status: int, out: str, err: str) -> int:
    """Write both texts and return the exit code; 141 if nobody reads them any more."""
    try:
        write_text(1, out)
        write_text(2, err)
    except BrokenPipeError:
        return 141
    except OSError as error:
        return _report_write_error(error)
    return status


def write_text(fd: int, text: str) -> None:
    """Write all of `text` as UTF-8, whatever the locale says."""
    write_bytes(fd, text.encode("utf-8", "replace"))


def write_bytes(fd: int, content: bytes) -> None:
    """Write all of `content`, waiting where the descriptor is in non-blocking mode."""
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            # A descriptor that a parent made non-blocking stays so for all who share it.
            from select import select

            select([], [fd], [])


def _take_string(text: str, before: str, position: int) -> tuple[str, int]:
    if not text.startswith(before, position):
        raise ValueError(before)
    return scanstring(text, position + len(before))


def _report_write_error(error: OSError) -> int:
    try:
        write_text(2, f"error: the output could not be written: {error.strerror}\n")
    except OSError:
        # Nobody is left to be told but the parent, by the exit code.
        return 1
    return 1
