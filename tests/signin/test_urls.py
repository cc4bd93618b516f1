from __future__ import annotations

import pytest

from mcpd.signin.urls import UnfitUrl, checked, is_inside, shown


@pytest.mark.parametrize(
    "url",
    [
        "https://id.example/a?b=c",
        "http://localhost:1/a",
        "http://127.0.0.1/a",
        "http://[::1]:8/",
        "https://xn--nxasmq6b.example",
    ],
)
def test_an_address_over_tls_or_on_this_machine_is_fit(url: str) -> None:
    assert checked(url) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://id.example/a", "is not over https"),
        ("http://localhost.evil.example/a", "is not over https"),
        ("http://127.0.0.1.evil.example/a", "is not over https"),
        ("file:///etc/passwd", "is no http or https URL"),
        ("javascript:alert(1)", "is no http or https URL"),
        ("-oProxyCommand=x", "is no http or https URL"),
        ("https://", "is no http or https URL"),
        ("https://a:b:c/", "is no http or https URL"),
        ("https://a/\x1b[31m", "is no http or https URL"),
        ("https://a/b c", "is no http or https URL"),
        ("https://user:secret@id.example/", "has a user in it"),
        ("", "is no http or https URL"),
    ],
)
def test_any_other_address_is_refused(url: str, why: str) -> None:
    with pytest.raises(UnfitUrl) as caught:
        checked(url)

    assert str(caught.value).endswith(why)
    assert "secret" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_plain_http_is_fit_where_the_configuration_says_so() -> None:
    assert checked("http://id.example/", insecure=True) == "http://id.example/"


def test_of_an_address_only_the_place_is_shown() -> None:
    assert shown("https://user:secret@id.example/path?token=secret#secret") == "https://id.example/path"


@pytest.mark.parametrize(
    ("addresses", "is_one"),
    [
        (["93.184.216.34"], False),
        (["93.184.216.34", "10.0.0.1"], True),
        (["127.0.0.1"], True),
        (["169.254.169.254"], True),
        (["::1"], True),
        (["fe80::1%eth0"], True),
        (["fd00::1"], True),
        (["::ffff:10.0.0.1"], True),
        (["2606:2800:220:1:248:1893:25c8:1946"], False),
        (["id.example"], False),
        ([], False),
    ],
)
def test_addresses_of_private_networks_are_known(addresses: list[str], is_one: bool) -> None:
    assert is_inside(addresses) is is_one
