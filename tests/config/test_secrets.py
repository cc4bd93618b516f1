"""The secrets that `${secret:NAME}` stands for: where they are kept, and what is refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mcpd.config.expand import Expander, launch
from mcpd.config.load import parse
from mcpd.config.secrets import Secrets
from mcpd.errors import Misconfigured


@pytest.fixture
def store(tmp_path):
    return Secrets({}, str(tmp_path / "mcpd"))


def expand(text, store, **environ):
    return Expander("s", environ, "/p", store.get).text(text, "env.X")


def test_a_secret_is_found_again_also_by_another_process(store, tmp_path):
    store.set("A", "planted")
    assert store.get("A") == "planted"
    assert Secrets({}, str(tmp_path / "mcpd")).get("A") == "planted"


def test_the_file_and_its_folder_are_the_users_alone(store):
    store.set("A", "planted")
    path = Path(store.path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_change_by_another_process_is_seen(store, tmp_path):
    store.set("A", "one")
    assert store.get("A") == "one"
    Secrets({}, str(tmp_path / "mcpd")).set("A", "another")
    assert store.get("A") == "another"


def test_what_is_forgotten_is_gone_and_the_others_stay(store):
    store.set("A", "one")
    store.set("B", "two")
    assert store.remove("A")
    assert not store.remove("A")
    assert (store.get("A"), store.get("B")) == (None, "two")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused_with_what_to_type(store, mode):
    store.set("A", "planted")
    Path(store.path).chmod(mode)
    with pytest.raises(Misconfigured) as caught:
        store.get("A")
    assert caught.value.hint == f"chmod 600 {store.path}"
    assert "planted" not in str(caught.value)


def test_a_link_is_refused(store, tmp_path):
    store.set("A", "planted")
    real = Path(store.path).rename(tmp_path / "elsewhere")
    Path(store.path).symlink_to(real)
    with pytest.raises(Misconfigured, match="it is a link"):
        Secrets({}, str(tmp_path / "mcpd")).get("A")


def test_a_damaged_file_is_refused_and_not_written_over(store):
    store.set("A", "planted")
    Path(store.path).write_text('{"version":1,"secrets":["planted"]}')
    with pytest.raises(Misconfigured) as caught:
        store.set("B", "two")
    assert "planted" not in str(caught.value)
    assert "planted" in Path(store.path).read_text()


def test_what_systemd_has_loaded_comes_first(tmp_path):
    (tmp_path / "A").write_text("given\n")
    store = Secrets({"CREDENTIALS_DIRECTORY": str(tmp_path)}, str(tmp_path / "mcpd"))
    store.set("A", "kept")
    store.set("B", "two")
    assert (store.get("A"), store.get("B")) == ("given", "two")
    assert store.names() == {"A": "systemd", "B": "file"}


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "x" * 65])
def test_a_name_cannot_lead_out_of_the_folder(tmp_path, name):
    (tmp_path / "x").write_text("outside")
    (folder := tmp_path / "in").mkdir()
    assert Secrets({"CREDENTIALS_DIRECTORY": str(folder)}, str(tmp_path / "mcpd")).get(name) is None


def test_no_repr_shows_a_value(store):
    store.set("A", "planted")
    store.get("A")
    [server] = parse('[servers.s]\ncommand = "/bin/true"\nenv = { T = "${secret:A}" }\n', "f", {}).servers.values()
    found = launch(server, {"HOME": "/"}, None, store.get)
    assert found.env["T"] == "planted"
    assert "planted" not in repr(store) + repr(found) + repr(server)


def test_what_systemd_has_loaded_is_not_cut(tmp_path):
    (tmp_path / "A").write_text("x" * (64 * 1024 + 1))
    assert Secrets({"CREDENTIALS_DIRECTORY": str(tmp_path)}, str(tmp_path / "mcpd")).get("A") is None


@pytest.mark.parametrize("name", ["A:-x", "", "a/b"])
def test_a_reference_that_names_no_secret_says_so(store, name):
    with pytest.raises(Misconfigured) as caught:
        expand(f"${{secret:{name}}}", store)
    assert caught.value.hint == "a name has letters, digits, _ . and -; a secret has no default"


def test_a_reference_is_replaced_and_its_value_is_one_to_hide(store):
    store.set("A-1", "planted-value")
    [server] = parse('[servers.s]\ncommand = "/bin/true"\nargs = ["--key=${secret:A-1}"]\n', "f", {}).servers.values()
    found = launch(server, {"HOME": "/", "PATH": "/bin"}, None, store.get)
    assert found.argv[1] == "--key=planted-value"
    assert "planted-value" in found.secrets


def test_a_secret_that_is_not_there_is_named_with_what_to_type(store):
    with pytest.raises(Misconfigured) as caught:
        expand("${secret:NOPE}", store)
    assert "${secret:NOPE}" in caught.value.message
    assert caught.value.hint == "mcpd secret set NOPE, then: mcpd start s"


@pytest.mark.parametrize(
    ("text", "environ", "value"),
    [
        ("${A-d}", {}, "d"),
        ("${A-d}", {"A": ""}, ""),
        ("${A:-d}", {"A": ""}, "d"),
        ("${A:-a-b:-c}", {}, "a-b:-c"),
        ("${env:A}", {"A": "x"}, "x"),
        ("${env:A:-d}", {}, "d"),
        ("${workspaceFolder}/x", {}, "/p/x"),
        ("${userHome}/x", {"HOME": "/h"}, "/h/x"),
        ("${A-${B}}", {"B": "b"}, "b"),
    ],
)
def test_the_words_of_editors_and_both_kinds_of_default(store, text, environ, value):
    assert expand(text, store, **environ) == value
