from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mcpd.signin.browser import NoSuchCommand, opener, show, with_page

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://id.example/a?b=(c)&d=e%20f"


def there(*names: str):  # type: ignore[no-untyped-def]
    return lambda name: f"/bin/{name}" if name in names else None


@pytest.mark.parametrize(
    ("command", "environ", "found", "words"),
    [
        ("fox --new 'a b'", {"BROWSER": "cat"}, ("fox", "cat"), ("fox", "--new", "a b")),
        (None, {"BROWSER": "fox -P x"}, ("fox",), ("fox", "-P", "x")),
        (None, {"BROWSER": "none:fox %s"}, ("fox",), ("fox", "%s")),
        (None, {"BROWSER": "none", "DISPLAY": ":0"}, ("xdg-open",), ("xdg-open",)),
        (None, {"BROWSER": "'unbalanced", "WAYLAND_DISPLAY": "w"}, ("xdg-open",), ("xdg-open",)),
        (None, {"DISPLAY": ":0"}, ("gio",), ("gio", "open")),
        (None, {"DISPLAY": ":0"}, (), None),
        (None, {}, ("xdg-open",), None),
    ],
)
def test_the_users_own_command_comes_first_and_without_a_screen_there_is_none(
    command: str | None, environ: dict[str, str], found: tuple[str, ...], words: tuple[str, ...] | None
) -> None:
    assert opener(command, environ, there(*found), "linux") == words


@pytest.mark.parametrize("command", ["none", "", "'unbalanced"])
def test_a_command_that_is_not_there_is_an_error_where_it_was_asked_for(command: str) -> None:
    with pytest.raises(NoSuchCommand):
        opener(command, {"BROWSER": "fox"}, there("fox"), "linux")


@pytest.mark.parametrize(
    ("command", "argv"),
    [(("fox",), ["fox", URL]), (("fox", "--app=%s", "x"), ["fox", f"--app={URL}", "x"])],
)
def test_the_page_goes_to_its_place_or_to_the_end_as_one_word(command: tuple[str, ...], argv: list[str]) -> None:
    assert with_page(command, URL) == argv


@pytest.mark.parametrize("template", ["printf %%s '%s' >'{seen}'", 'printf %%s "%s" >"{seen}"'])
def test_not_even_a_shell_of_the_users_own_runs_what_is_in_an_address(tmp_path: Path, template: str) -> None:
    seen, ran = tmp_path / "seen", tmp_path / "ran"
    script = template.replace("%%s", "%b").format(seen=seen)
    url = f"https://id.example/$(>{ran})`>{ran}`';>{ran};'\";>{ran};\"?a=b"

    assert show(("sh", "-c", script), url).wait() == 0

    assert seen.read_text().startswith("https://id.example/")
    assert not ran.exists()


def test_no_shell_sees_the_page(tmp_path: Path) -> None:
    script = tmp_path / "browser.py"
    script.write_text(f"import sys; open({str(tmp_path / 'seen')!r}, 'w').write(repr(sys.argv[1:]))")

    assert show((sys.executable, str(script)), URL).wait() == 0

    assert (tmp_path / "seen").read_text() == repr([URL])
