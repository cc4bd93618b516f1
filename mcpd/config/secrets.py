"""The secrets that `${secret:NAME}` stands for: given by systemd, or kept in a file that nobody else can read.

A value comes in over a prompt or stdin and goes to a server when it starts; nothing here ever prints one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping

import msgspec

from mcpd.config.expand import SECRET_NAME
from mcpd.config.state import data_folder
from mcpd.errors import Misconfigured

# A private key has a few thousand characters.
MAX_VALUE_BYTES = 64 * 1024
MAX_FILE_BYTES = 4 * 1024 * 1024
FILE = "secrets.json"


class _Kept(msgspec.Struct):
    """What is in the file."""

    version: int = 1
    secrets: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"_Kept({len(self.secrets)} secrets)"


class Secrets:
    """The secrets of one user.

    What systemd has loaded for the service (`LoadCredential=NAME:PATH`) comes before what is in the file.

    Args:
        environ: `CREDENTIALS_DIRECTORY` names the folder with what systemd has loaded.
        folder: where the file is; made with the first secret.
    """

    def __init__(self, environ: Mapping[str, str], folder: str | None = None) -> None:
        self._given = environ.get("CREDENTIALS_DIRECTORY", "")
        self._folder = data_folder() if folder is None else folder
        self.path = os.path.join(self._folder, FILE)
        self._stamp: object = None
        self._known: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Secrets({self.path!r})"

    def get(self, name: str) -> str | None:
        """Return a secret, or None if there is none of that name.

        Raises:
            Misconfigured: The file must not be trusted or cannot be read; says what to type.
        """
        if not SECRET_NAME.fullmatch(name) or name in (".", ".."):
            return None
        if (given := self._loaded(name)) is not None:
            return given
        return self._read().get(name)

    def names(self) -> dict[str, str]:
        """Return where each secret is: `systemd` or `file`; raises as `get`."""
        found = dict.fromkeys(self._read(), "file")
        if self._given.startswith("/"):
            with contextlib.suppress(OSError):
                found |= dict.fromkeys((one.name for one in os.scandir(self._given) if one.is_file() and SECRET_NAME.fullmatch(one.name)), "systemd")
        return dict(sorted(found.items()))

    def set(self, name: str, value: str) -> None:
        """Keep a secret in the file; raises as `get`, and OSError if it cannot be written."""
        with self._locked():
            self._write({**self._read(), name: value})

    def remove(self, name: str) -> bool:
        """Forget a secret of the file; say whether there was one. Raises as `set`."""
        with self._locked():
            kept = dict(self._read())
            if kept.pop(name, None) is None:
                return False
            self._write(kept)
            return True

    # -- the file --------------------------------------------------------------------------------

    def _loaded(self, name: str) -> str | None:
        if not self._given.startswith("/"):
            return None
        try:
            with open(os.path.join(self._given, name), encoding="utf-8") as file:
                value = file.read(MAX_VALUE_BYTES + 1)
        except (OSError, UnicodeDecodeError):
            return None
        # Half a key would be no key: the server shall not start with it.
        return None if len(value) > MAX_VALUE_BYTES else value.removesuffix("\n")

    def _read(self) -> dict[str, str]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}
        except OSError as problem:
            why = "it is a link" if problem.errno == errno.ELOOP else os.strerror(problem.errno or 0)
            raise self._refused(why, f"ls -l {self.path}") from None
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid)
            if stamp != self._stamp:
                self._check(found)
                self._known, self._stamp = self._decoded(file.read(MAX_FILE_BYTES + 1)), stamp
        return self._known

    def _check(self, found: os.stat_result) -> None:
        """Refuse what others could have written or may read."""
        if not stat.S_ISREG(found.st_mode):
            raise self._refused("it is no file", f"ls -l {self.path}")
        if found.st_uid != os.geteuid():
            raise self._refused("it belongs to another user", f"ls -l {self.path}")
        if found.st_mode & 0o077:
            raise self._refused(f"others may read it (mode {stat.S_IMODE(found.st_mode):04o})", f"chmod 600 {self.path}")

    def _decoded(self, data: bytes) -> dict[str, str]:
        try:
            return msgspec.json.decode(data, type=_Kept).secrets
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise self._refused("it is not what mcpd has written", f"mv {self.path} {self.path}.bad") from None

    def _refused(self, why: str, hint: str) -> Misconfigured:
        return Misconfigured(f"the secrets in {self.path} are not used: {why}", hint=hint, file=self.path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let nobody else change the file meanwhile; two shells at once lose nothing."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        fd = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _write(self, kept: dict[str, str]) -> None:
        temporary = f"{self.path}.{os.getpid()}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # of one who was killed here; the lock is ours
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                os.fchmod(fd, 0o600)
                file.write(msgspec.json.encode(_Kept(secrets=kept)))
                file.flush()
                os.fsync(fd)
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
