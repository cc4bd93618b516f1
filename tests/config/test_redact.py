"""What is kept out of sight, and what is left alone."""

import base64
import json
import urllib.parse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpd.config.redact import MARK, MIN_SECRET_CHARS, Redactor

SECRET = 'p&ss "wörd"/\n+tail'
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/IBAAKCAQEA\nq1w2e3==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(SECRET))[3:-3],
        json.dumps(json.dumps(SECRET, ensure_ascii=False), ensure_ascii=False)[3:-3],
        urllib.parse.quote(SECRET),
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote_plus(SECRET),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_a_secret_is_replaced_in_each_form_that_text_takes(form):
    assert Redactor([SECRET]).text(f"<{form}> and <{form}>") == f"<{MARK}> and <{MARK}>"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
def test_a_secret_inside_a_longer_base64_text_leaves_at_most_its_border(before):
    encoded = base64.b64encode(f"{before}s3cret-value-123:after".encode()).decode()

    left = Redactor(["s3cret-value-123"]).text(encoded)

    assert MARK in left
    # The characters at a border carry bits of both neighbours.
    assert len(left) - len(MARK) <= len(encoded) - len("s3cret-value-123") * 8 // 6 + 2


def test_the_longer_of_two_overlapping_secrets_is_replaced_whole():
    assert Redactor(["abcdef", "abcdef-ghijkl"]).text("x abcdef-ghijkl y abcdef z") == f"x {MARK} y {MARK} z"


def test_a_short_value_is_left_because_it_would_blot_out_innocent_text():
    assert Redactor(["a" * (MIN_SECRET_CHARS - 1)]).text("aaaaaaaaaa") == "aaaaaaaaaa"
    assert Redactor(["a" * MIN_SECRET_CHARS]).text("x" + "a" * MIN_SECRET_CHARS) == f"x{MARK}"


def test_space_around_a_value_need_not_be_there():
    assert Redactor(["s3cret-value\n"]).text("[s3cret-value]") == f"[{MARK}]"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Authorization: Bearer abc.DEF_123-x~y+z/9==", f"Authorization: Bearer {MARK}"),
        ("authorization: bearer abcdef0123456789", f"authorization: Bearer {MARK}"),
        ("Bearer abcdefghijklmnopqrst", f"Bearer {MARK}"),
        ("key sk-ant-api03-AbCdEfGhIjKlMnOp.", f"key {MARK}."),
        ("sk-proj-0123456789abcdef_ABC", MARK),
        (r'"out\nsk-proj-0123456789abcdef"', rf'"out\n{MARK}"'),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", MARK),
        ("gho_0123456789abcdefghij/ghs_0123456789abcdefghij", f"{MARK}/{MARK}"),
        ("github_pat_11ABCDEFG0123456789_abcdef", MARK),
        ("xoxb-123456789012-abcdefGHIJKL", MARK),
        ("id AKIAIOSFODNN7EXAMPLE!", f"id {MARK}!"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", MARK),
        ("eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", MARK),
        (f"a\n{PEM}\nb", f"a\n{MARK}\nb"),
        (json.dumps(f"{PEM}\n"), f'"{MARK}\\n"'),
        ("postgres://ann:hunter2@db:5432/x", f"postgres://{MARK}@db:5432/x"),
        ("see https://u:p%40ss@h/a and http://h/b", f"see https://{MARK}@h/a and http://h/b"),
    ],
)
def test_what_has_the_shape_of_a_credential_is_replaced(text, redacted):
    assert Redactor().text(text) == redacted


def test_a_private_key_that_was_cut_off_is_replaced_to_its_end():
    assert Redactor().text(f"key: {PEM[:50]}") == f"key: {MARK}"


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is required",
        'WWW-Authenticate: Bearer resource_metadata="https://h/.well-known"',
        "the bearer of this letter",
        "task-management-for-teams and desk-0123456789abcdefgh",
        "sk-learn is not a token",
        "the ghp_ prefix, AKIA, eyJ and xoxo-",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "http://host:8080/path@2 ssh://git@host/x 10:30@noon",
        "git@github.com:a/b",
        "",
    ],
)
def test_innocent_text_is_returned_as_it_is(text):
    assert Redactor(["s3cret-value"]).text(text) is text


@pytest.mark.parametrize(
    "piece", ["eyJ", "sk-", "Bearer ", "-----BEGIN PRIVATE KEY-----", "://a:", "ghp_", "\\nsk-", "xoxb-"]
)
def test_a_text_made_of_beginnings_takes_no_longer_than_its_length(piece):
    # A quadratic search would run for hours here and end in the time limit of the run.
    Redactor(["s3cret-value"]).text(piece * (4_000_000 // len(piece)))


def test_redacting_twice_changes_nothing_more():
    redactor = Redactor(["s3cret-value"])
    once = redactor.text(f"s3cret-value {PEM} Bearer abcdef0123456789 https://u:p@h/")

    assert redactor.text(once) == once


def test_it_does_not_show_what_it_looks_for():
    assert "s3cret" not in repr(Redactor(["s3cret-value"]))


words = st.characters(exclude_characters="\0")


@settings(max_examples=100, deadline=None)
@given(st.text(words, min_size=MIN_SECRET_CHARS, max_size=20), st.text(words, max_size=20), st.text(words, max_size=20))
def test_no_secret_survives_plain_or_in_json(secret, before, after):
    redactor = Redactor([secret])
    whole = before + secret + after

    for text in (whole, json.dumps({"k": whole}), json.dumps({"k": [secret]}, ensure_ascii=False)):
        # A piece of the mark itself is no leak.
        assert secret not in redactor.text(text).replace(MARK, "\0")
