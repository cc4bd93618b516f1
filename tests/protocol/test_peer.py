"""Whose answer a line is: ids, strays, tombstones."""

from __future__ import annotations

import pytest

from mcpd.protocol.peer import MAX_TOMBSTONES, Kind, Peer


def peer_with(*calls: str) -> Peer[str]:
    """Return a peer on which each of the calls is pending, under 1, 2, …"""
    peer: Peer[str] = Peer()
    for call in calls:
        peer.register(call)
    return peer


def taken(peer: Peer[str], line: bytes) -> tuple[Kind, str | None]:
    kind, call, _ = peer.receive(line)
    return kind, call


RESULT = b'{"jsonrpc":"2.0","id":%b,"result":{"ok":true}}'
ERROR = b'{"jsonrpc":"2.0","id":%b,"error":{"code":1,"message":"no"}}'


def test_ids_count_up_and_are_never_used_again() -> None:
    peer: Peer[str] = Peer()

    first, second = peer.register("a"), peer.register("b")
    peer.receive(RESULT % first)
    peer.abandon(second)

    assert [first, second, peer.register("c")] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("line", "kind", "call"),
    [
        (RESULT % b"1", Kind.RESULT, "a"),
        (ERROR % b"2", Kind.ERROR, "b"),
        (b'{"id":1,"result":{}}', Kind.RESULT, "a"),
        (b' { "id" : 1 , "result" : { } } \r\n', Kind.RESULT, "a"),
        (b'{"result":{},"jsonrpc":"2.0","id":2}', Kind.RESULT, "b"),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', Kind.RESULT, "a"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', Kind.RESULT, "a"),
        (RESULT % b'"1"', Kind.RESULT, "a"),
        (ERROR % b'"2"', Kind.ERROR, "b"),
        (b'{"jsonrpc":"2.0","id":1}', Kind.BROKEN, "a"),
        (b'{"jsonrpc":"2.0","id":1,"params":{}}', Kind.BROKEN, "a"),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}', Kind.NOTIFICATION, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Kind.REQUEST, None),
        (b'{"jsonrpc":"2.0","id":"x","method":"roots/list","params":{}}', Kind.REQUEST, None),
    ],
)
def test_a_message_goes_to_the_call_it_is_for(line: bytes, kind: Kind, call: str | None) -> None:
    peer = peer_with("a", "b")

    assert taken(peer, line) == (kind, call)
    assert list(peer.pending.values()) == [one for one in ("a", "b") if one != call]
    assert not peer.counts


def test_an_error_beside_a_result_that_is_null_is_the_answer() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"no"}}'

    assert taken(peer_with("a"), line) == (Kind.ERROR, "a")


def test_members_that_a_server_leaves_null_do_not_spoil_its_answer() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":null,"params":null,"result":{},"error":null}'

    assert taken(peer_with("a"), line) == (Kind.RESULT, "a")


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (RESULT % b"3", "unknown"),
        (RESULT % b"0", "unknown"),
        (RESULT % b"-1", "unknown"),
        (RESULT % b"true", "unknown"),
        (RESULT % b"false", "unknown"),
        (RESULT % b"1.0", "unknown"),
        (RESULT % b"1e0", "unknown"),
        (RESULT % b"[1]", "unknown"),
        (RESULT % b'{"id":1}', "unknown"),
        (RESULT % b"null", "unknown"),
        (RESULT % b'""', "unknown"),
        (RESULT % b'"a"', "unknown"),
        (RESULT % b'"true"', "unknown"),
        (RESULT % b'" 1"', "unknown"),
        (RESULT % rb'"\u0031"', "unknown"),
        (ERROR % b"null", "unknown"),
        (b'{"jsonrpc":"2.0","result":{}}', "unknown"),
        (b'{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}', "unknown"),
        (b'{"level":"info","msg":"started","id":1}', "noise"),
        (b'{"level":"info","msg":"started","id":9}', "noise"),
        (b'{"level":"info","msg":"started"}', "noise"),
        (b"{}", "noise"),
        (b"listening on port 80", "noise"),
        (b"1", "noise"),
        (b"true", "noise"),
        (b"null", "noise"),
        (b"{broken", "noise"),
        (b'{"id":9,"result":{', "noise"),
    ],
)
def test_what_is_nobodys_is_counted_and_leaves_the_pending_calls_alone(line: bytes, count: str) -> None:
    peer = peer_with("a", "b")

    assert taken(peer, line) == (Kind.IGNORED, None)
    assert dict(peer.counts) == {count: 1}
    assert sorted(peer.pending) == [b"1", b"2"]


# -- errors without an id ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}',
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}',
    ],
)
def test_an_error_without_an_id_is_for_the_only_call_that_it_can_mean(line: bytes) -> None:
    peer = peer_with("a")

    assert taken(peer, line) == (Kind.ERROR, "a")
    assert not peer.pending


def test_an_error_without_an_id_may_mean_a_call_that_was_given_up() -> None:
    peer = peer_with("a", "b")
    peer.abandon(b"1")

    assert taken(peer, ERROR % b"null") == (Kind.IGNORED, None)
    assert list(peer.pending.values()) == ["b"]


def test_an_error_without_an_id_means_nobody_where_nothing_is_pending() -> None:
    peer = peer_with()

    assert taken(peer, ERROR % b"null") == (Kind.IGNORED, None)
    assert dict(peer.counts) == {"unknown": 1}


# -- late and twice ------------------------------------------------------------------------------


def test_a_late_answer_is_counted_once_and_after_that_it_is_a_duplicate() -> None:
    peer = peer_with("a", "b")

    assert peer.abandon(b"1") == "a"

    assert taken(peer, RESULT % b"1") == (Kind.LATE, None)
    assert taken(peer, RESULT % b'"1"') == (Kind.IGNORED, None)
    assert dict(peer.counts) == {"late": 1, "duplicate": 1}
    assert list(peer.pending.values()) == ["b"]


def test_a_late_answer_is_known_by_its_id_as_a_string_too() -> None:
    peer = peer_with("a")
    peer.abandon(b"1")

    taken(peer, ERROR % b'"1"')

    assert dict(peer.counts) == {"late": 1}


def test_the_second_answer_to_a_call_is_dropped() -> None:
    peer = peer_with("a", "b")

    assert taken(peer, RESULT % b"1") == (Kind.RESULT, "a")
    assert taken(peer, ERROR % b"1") == (Kind.IGNORED, None)

    assert dict(peer.counts) == {"duplicate": 1}
    assert list(peer.pending.values()) == ["b"]


def test_two_pending_calls_are_answered_in_any_order() -> None:
    peer = peer_with("a", "b")

    assert taken(peer, RESULT % b"2") == (Kind.RESULT, "b")
    assert taken(peer, RESULT % b"1") == (Kind.RESULT, "a")


def test_giving_up_what_is_not_pending_does_nothing() -> None:
    peer = peer_with("a")
    peer.receive(RESULT % b"1")

    assert peer.abandon(b"1") is None
    assert peer.abandon(b"99") is None

    taken(peer, RESULT % b"1")
    assert dict(peer.counts) == {"duplicate": 1}


def test_only_so_many_of_the_given_up_are_remembered() -> None:
    peer: Peer[int] = Peer()
    for number in range(MAX_TOMBSTONES + 2):
        peer.abandon(peer.register(number))

    for late in (1, 2, 3, MAX_TOMBSTONES + 2):
        peer.receive(RESULT % b"%d" % late)

    assert dict(peer.counts) == {"duplicate": 2, "late": 2}


def test_at_the_end_everything_pending_is_handed_back_once() -> None:
    peer = peer_with("a", "b", "c")
    peer.receive(RESULT % b"2")

    assert peer.take_all() == ["a", "c"]
    assert peer.take_all() == []
    assert taken(peer, RESULT % b"1") == (Kind.IGNORED, None)


# -- answers that cannot be read -----------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"te',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}',
        b'{"result":{"a":NaN},"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}trailing',
    ],
)
def test_a_garbled_answer_names_its_call_which_stays_pending(line: bytes) -> None:
    peer = peer_with("a", "b")

    kind, call, message = peer.receive(line)

    assert (kind, call, bytes(message.id)) == (Kind.GARBLED, "a", b"1")
    assert message.method
    assert taken(peer, RESULT % b"1") == (Kind.RESULT, "a")


def test_a_log_line_with_an_id_may_come_before_the_answer() -> None:
    peer = peer_with("a")

    assert taken(peer, b'{"level":"debug","id":1,"msg":"handling"}') == (Kind.IGNORED, None)
    assert taken(peer, RESULT % b"1") == (Kind.RESULT, "a")
