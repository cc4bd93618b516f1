"""The credential files: what is believed, what is refused, and what survives a crash."""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpd.upstream.credential import check_file
from mcpd.upstream.vault import Busy, Client, Credential, Endpoints, Refused, Tokens, Vault, name_of, resource_of

ISSUER, RESOURCE = "https://as.example", "https://api.example/mcp"
SECRETS = ("access-1", "refresh-1", "secret-1")


def credential(token: str = "access-1", **more: Any) -> Credential:
    return Credential(
        **{
            "version": 1,
            "resource": RESOURCE,
            "issuer": ISSUER,
            "client": Client(client_id="me", client_secret="secret-1", registration="dynamic"),
            "endpoints": Endpoints(token=f"{ISSUER}/token"),
            "tokens": Tokens(access_token=token, token_type="Bearer", refresh_token="refresh-1", expires_at=2000.0),
            "saved_at": 0.0,
            **more,
        }
    )


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(str(tmp_path / "state/credentials"), lambda: 1000.0)


@pytest.fixture
def file(vault: Vault) -> Path:
    """The file of one credential that is there."""
    vault.write(credential())
    return Path(vault.path, name_of(ISSUER, RESOURCE) + ".json")


def test_what_was_written_is_read(vault: Vault) -> None:
    written = vault.write(credential())

    assert vault.read(ISSUER, RESOURCE) == written
    assert vault.of(RESOURCE) == written
    assert written.saved_at == 1000.0


def test_a_file_holds_what_others_expect_of_it(file: Path) -> None:
    assert json.loads(file.read_text()) == {
        "version": 1,
        "resource": RESOURCE,
        "issuer": ISSUER,
        "client": {"client_id": "me", "client_secret": "secret-1", "registration": "dynamic"},
        "endpoints": {"token": "https://as.example/token"},
        "tokens": {"access_token": "access-1", "token_type": "Bearer", "refresh_token": "refresh-1", "expires_at": 2000.0},
        "saved_at": 1000.0,
    }  # fmt: skip


def test_only_the_user_can_get_at_a_file(file: Path) -> None:
    old = os.umask(0)
    try:
        Vault(str(file.parent)).write(credential("access-2"))
    finally:
        os.umask(old)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [*file.parent.iterdir()] == [file]


def test_without_a_folder_there_is_nothing(vault: Vault) -> None:
    assert vault.of(RESOURCE) is None
    assert vault.read(ISSUER, RESOURCE) is None
    assert vault.all() == ([], [])
    assert vault.stamp() is None
    assert vault.remove(ISSUER, RESOURCE) is False


@pytest.mark.parametrize(
    ("url", "resource"),
    [
        ("https://a.example/mcp/", "https://a.example/mcp"),
        ("https://a.example/mcp#here", "https://a.example/mcp"),
        ("HTTPS://A.Example:443/mcp", "https://a.example/mcp"),
        ("http://me:secret@[::1]:8080/", "http://[::1]:8080"),
        ("https://a.example/Mcp?x=/", "https://a.example/Mcp?x=/"),
    ],
)
def test_a_server_is_known_by_its_url(url: str, resource: str) -> None:
    assert resource_of(url) == resource


def test_a_server_is_found_however_its_url_is_spelled(vault: Vault) -> None:
    vault.write(credential(resource="https://API.example/mcp/"))

    assert vault.of("https://api.example:443/mcp#x") is not None
    assert vault.of("https://api.example/other") is None


def test_of_several_issuers_the_newest_counts_unless_one_is_named(tmp_path: Path) -> None:
    times = iter((1.0, 2.0, 2.0, 2.0))
    vault = Vault(str(tmp_path / "c"), lambda: next(times))
    vault.write(credential("old", issuer="https://z.example"))
    vault.write(credential("new", issuer="https://a.example"))

    assert _token(vault.of(RESOURCE)) == "new"
    assert _token(vault.of(RESOURCE, "https://z.example")) == "old"
    assert _token(vault.of(RESOURCE, "https://z.example/")) == "old"
    assert vault.of(RESOURCE, "https://other.example") is None


def test_nothing_shows_a_secret(file: Path, vault: Vault) -> None:
    found = vault.of(RESOURCE)
    assert found is not None

    assert found.secrets == {*SECRETS}
    shown = f"{found!r} {found.client!r} {found.tokens!r} {found}"
    assert [one for one in SECRETS if one in shown] == []


def _symlink(file: Path) -> None:
    target = file.with_name("elsewhere")
    file.rename(target)
    file.symlink_to(target)


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir(0o700)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_symlink, "it is a link"),
        (_fifo, "it is no regular file"),
        (_folder, "it is no regular file"),
        (lambda file: file.chmod(0o640), "others may read it (mode 0640)"),
        (lambda file: file.chmod(0o602), "others may read it (mode 0602)"),
        (lambda file: os.link(file, file.with_name("second")), "it has 2 names"),
        (lambda file: file.write_text(""), "it holds no credential"),
        (lambda file: file.write_bytes(file.read_bytes()[:-20]), "it holds no credential"),
        (lambda file: file.write_bytes(b"\0" * 300), "it holds no credential"),
        (lambda file: file.write_bytes(b" " * (1 << 20) + file.read_bytes()), "it is over 1048576 bytes"),
        (lambda file: _change(file, version=2), "it has version 2, expected 1"),
        (lambda file: _change(file, resource="https://evil.example"), "it is another credential's file"),
        (lambda file: _change(file, issuer="https://evil.example"), "it is another credential's file"),
        (lambda file: _change(file, resource="http://[x"), "it is another credential's file"),
        (lambda file: _change(file, tokens={"access_token": "a\r\nb", "token_type": "x"}), "it holds a token that cannot be sent"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_as_it_should_be_is_refused(
    spoil: Callable[[Path], object], why: str, file: Path, vault: Vault
) -> None:
    spoil(file)

    for read in (lambda: vault.read(ISSUER, RESOURCE), lambda: vault.of(RESOURCE), lambda: vault.of(RESOURCE, ISSUER)):
        with pytest.raises(Refused) as refused:
            read()
        assert str(refused.value) == f"{file} is not used: {why}"
        assert not any(secret in str(refused.value) for secret in SECRETS)


def test_a_file_of_somebody_else_is_refused(file: Path) -> None:
    found = [*file.stat()]
    found[4] = os.geteuid() + 1

    with pytest.raises(Refused, match="it belongs to another user"):
        check_file(os.stat_result(found), str(file))


@pytest.mark.parametrize("spoil", [_symlink, _fifo, lambda file: file.chmod(0o644), lambda file: file.write_text("{")])
def test_a_new_sign_in_puts_a_refused_file_right(spoil: Callable[[Path], object], file: Path, vault: Vault) -> None:
    spoil(file)

    vault.write(credential("access-2"))

    assert _token(vault.read(ISSUER, RESOURCE)) == "access-2"
    assert stat.S_ISREG(file.lstat().st_mode)


def test_what_a_link_points_to_is_never_written(file: Path, vault: Vault) -> None:
    file.unlink()
    precious = file.with_name("precious")
    precious.write_text("mine")
    file.symlink_to(precious)

    vault.write(credential())

    assert precious.read_text() == "mine"


def test_one_bad_file_hides_no_other(file: Path, vault: Vault) -> None:
    other = vault.write(credential(resource="https://other.example"))
    file.chmod(0o644)

    found, refused = vault.all()

    assert found == [other]
    assert [problem.path for problem in refused] == [str(file)]
    assert vault.of("https://other.example") == other
    # Nobody can say whose the bad one is, unless the issuer is known.
    with pytest.raises(Refused):
        vault.of("https://third.example")
    assert vault.of("https://third.example", ISSUER) is None


@pytest.mark.parametrize(
    ("spoil", "hint"),
    [(lambda folder: folder.chmod(0o750), "chmod 700"), (lambda folder: _symlink(folder), "ls -ld")],
)
def test_a_folder_that_others_can_enter_or_that_is_a_link_is_refused(
    spoil: Callable[[Path], object], hint: str, file: Path, vault: Vault
) -> None:
    spoil(file.parent)

    for act in (lambda: vault.of(RESOURCE), lambda: vault.write(credential()), lambda: vault.lock(ISSUER, RESOURCE)):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.path == vault.path
        assert refused.value.hint.startswith(hint)


def test_a_crash_before_the_rename_leaves_the_old_credential(
    file: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", crash)
    with pytest.raises(KeyboardInterrupt):
        vault.write(credential("access-2"))

    assert _token(vault.read(ISSUER, RESOURCE)) == "access-1"
    assert [*file.parent.iterdir()] == [file]


def test_a_write_that_was_killed_leaves_the_old_credential(file: Path, vault: Vault) -> None:
    _in_child(_killed_before_rename, vault.path)

    assert _token(vault.read(ISSUER, RESOURCE)) == "access-1"
    assert len([*file.parent.glob("*.tmp")]) == 1


def test_what_a_killed_write_has_left_is_removed_some_time(file: Path, vault: Vault) -> None:
    left = file.with_name("x.tmp")
    left.write_text("half")
    recent = file.with_name("y.tmp")
    recent.write_text("half")
    os.utime(left, (0, 0))
    os.utime(recent, (990, 990))

    Vault(vault.path, lambda: 4000.0).write(credential("access-2"))

    assert not left.exists()
    assert recent.exists()


def test_a_full_disk_leaves_the_old_credential(file: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        vault.write(credential("access-2"))

    assert _token(vault.read(ISSUER, RESOURCE)) == "access-1"
    assert [*file.parent.iterdir()] == [file]


def test_it_is_on_the_disk_before_it_is_in_its_place(file: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("folder" if _is_folder(fd) else "file"), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda *a, **k: (done.append("rename"), rename(*a, **k)))

    vault.write(credential("access-2"))

    assert done == ["file", "rename", "folder"]


def test_whoever_looks_can_tell_that_something_was_written(file: Path, vault: Vault) -> None:
    os.utime(vault.path, (1, 1))
    before = vault.stamp()

    vault.write(credential("access-2"))
    between = vault.stamp()
    os.utime(vault.path, (2, 2))
    again = vault.stamp()
    vault.remove(ISSUER, RESOURCE)

    assert len({before, between, again, vault.stamp()}) == 4


def test_removing_takes_whatever_is_there(file: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o644)
    done: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(_is_folder(fd)))

    assert vault.remove(ISSUER, RESOURCE) is True
    assert done == [True]
    assert vault.remove(ISSUER, RESOURCE) is False
    assert [*file.parent.iterdir()] == []


def test_one_at_a_time_holds_a_lock(vault: Vault) -> None:
    with _closing(vault.lock(ISSUER, RESOURCE)) as first, _closing(vault.lock(ISSUER, RESOURCE)) as second:
        assert first.try_acquire()
        assert not second.try_acquire()
        first.close()
        first.close()
        assert second.try_acquire()
        with pytest.raises(Busy, match="held by somebody else for 0 s"), vault.locked(ISSUER, RESOURCE, seconds=0):
            raise AssertionError

    with vault.locked(ISSUER, RESOURCE, seconds=0):
        assert [path.suffix for path in Path(vault.path).iterdir()] == [".lock"]
    assert [*Path(vault.path).iterdir()] == []


def test_a_lock_that_is_removed_while_somebody_waits_for_it_is_nobodys(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _closing(vault.lock(ISSUER, RESOURCE)) as first, _closing(vault.lock(ISSUER, RESOURCE)) as second:
        assert first.try_acquire()
        flock = fcntl.flock
        monkeypatch.setattr(fcntl, "flock", lambda *a: (first.close(), flock(*a)))

        assert not second.try_acquire()
        assert second.try_acquire()


def test_a_lock_does_not_lock_others(vault: Vault) -> None:
    with vault.locked(ISSUER, RESOURCE), vault.locked("https://b.example", RESOURCE, seconds=0):
        pass


def test_a_holder_that_was_killed_holds_no_more(vault: Vault) -> None:
    _in_child(_killed_with_lock, vault.path)

    with vault.locked(ISSUER, RESOURCE, seconds=0):
        pass


def test_writers_in_several_processes_lose_nothing_of_each_other(vault: Vault) -> None:
    vault.write(credential("0"))
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_count_up, args=(vault.path, 25)) for _ in range(3)]

    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        assert vault.read(ISSUER, RESOURCE) is not None  # whole at any time
    for one in writers:
        one.join()

    assert _token(vault.read(ISSUER, RESOURCE)) == "75"
    assert [path.suffix for path in Path(vault.path).iterdir()] == [".json"]


def _count_up(path: str, times: int) -> None:
    vault = Vault(path)
    for _ in range(times):
        with vault.locked(ISSUER, RESOURCE):
            vault.write(credential(str(int(_token(vault.read(ISSUER, RESOURCE))) + 1)))


def _killed_before_rename(path: str) -> None:
    os.rename = lambda *_, **__: os._exit(0)  # type: ignore[assignment]  # a kill in the middle of a write
    Vault(path).write(credential("access-2"))


def _killed_with_lock(path: str) -> None:
    with Vault(path).locked(ISSUER, RESOURCE):
        os._exit(0)


def _in_child(work: Callable[[str], None], path: str) -> None:
    child = multiprocessing.get_context("spawn").Process(target=work, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == 0


def _token(found: Credential | None) -> str:
    assert found is not None
    assert found.tokens is not None
    return found.tokens.access_token


def _change(file: Path, **changes: object) -> None:
    file.write_bytes(msgspec.json.encode({**json.loads(file.read_text()), **changes}))


def _is_folder(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


@contextlib.contextmanager
def _closing(lock: Any) -> Iterator[Any]:
    with contextlib.closing(lock):
        yield lock
