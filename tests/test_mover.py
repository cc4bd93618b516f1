"""The mover against real pipes and sockets."""

import os
import socket

import pytest
import trio

from mcpd.mover import Mover
from mcpd.timers import Timers


class Sink:
    """Notes what a stream reports, and lets a test wait for it."""

    def __init__(self):
        self.data, self.ends, self.crashes = b"", [], []
        self.happened = trio.Event()

    def on_bytes(self, data):
        self.data += data
        self.note()

    def on_end(self, gone):
        self.ends.append(gone)
        self.note()

    def on_crash(self, problem):
        self.crashes.append(problem)
        self.note()

    def note(self):
        self.happened.set()
        self.happened = trio.Event()

    async def until(self, condition):
        with trio.fail_after(5):
            await trio.lowlevel.checkpoint()
            while not condition():
                await self.happened.wait()


@pytest.fixture
async def mover(nursery):
    mover = Mover()
    nursery.start_soon(mover.run)
    yield mover
    nursery.cancel_scope.cancel()


def sockets(mover, sink):
    ours, theirs = socket.socketpair()
    fd = ours.detach()
    return mover.open(fd, fd, sink.on_bytes, sink.on_end, sink.on_crash), theirs


async def test_a_half_closed_peer_still_gets_what_is_written(mover):
    sink = Sink()
    stream, theirs = sockets(mover, sink)

    theirs.sendall(b"ask")
    theirs.shutdown(socket.SHUT_WR)
    await sink.until(lambda: sink.ends)
    stream.write(b"answer")

    assert sink.ends == [False]
    assert theirs.recv(100) == b"answer"
    theirs.close()
    await sink.until(lambda: len(sink.ends) == 2)
    assert sink.ends == [False, True]
    stream.close()


async def test_a_peer_that_leaves_is_noticed_although_nothing_is_read(mover):
    sink = Sink()
    stream, theirs = sockets(mover, sink)
    stream.pause()

    theirs.sendall(b"unread")
    theirs.close()

    await sink.until(lambda: sink.ends)
    assert sink.ends == [True]
    assert sink.data == b""
    stream.close()


async def test_a_slow_reader_gets_every_byte_in_order(mover):
    sink = Sink()
    stream, theirs = sockets(mover, sink)
    sent = [bytes([n % 251]) * 50_000 for n in range(100)]

    for part in sent:
        stream.write(part)
    theirs.setblocking(False)
    got = bytearray()
    with trio.fail_after(5):
        await trio.lowlevel.checkpoint()
        while len(got) < 5_000_000:
            await trio.lowlevel.wait_readable(theirs)
            got += theirs.recv(1 << 16)

    assert bytes(got) == b"".join(sent)
    assert stream.out_bytes == 0
    stream.close()
    theirs.close()


async def test_an_unsent_part_can_be_taken_back_and_a_begun_one_cannot(mover):
    sink = Sink()
    stream, theirs = sockets(mover, sink)
    first, second = b"x" * 5_000_000, b"never"

    stream.write(first)
    stream.write(second)

    assert not stream.withdraw(first)
    assert stream.untouched(second)
    assert stream.withdraw(second)
    assert not stream.withdraw(second)
    theirs.close()
    await sink.until(lambda: sink.ends)
    stream.close()


async def test_the_end_of_a_pipe_without_last_bytes_is_an_end(mover):
    sink = Sink()
    out_r, out_w = os.pipe()
    in_r, in_w = os.pipe()
    stream = mover.open(out_r, in_w, sink.on_bytes, sink.on_end, sink.on_crash)

    os.close(out_w)

    await sink.until(lambda: sink.ends)
    assert sink.ends == [False]
    stream.close()
    os.close(in_r)


async def test_the_last_words_of_a_server_that_closed_its_stdin_are_read(mover):
    sink = Sink()
    out_r, out_w = os.pipe()
    in_r, in_w = os.pipe()
    stream = mover.open(out_r, in_w, sink.on_bytes, sink.on_end, sink.on_crash)
    os.close(in_r)

    unread = b"nobody reads this"
    stream.write(unread)
    os.write(out_w, b"last words")

    await sink.until(lambda: sink.data)
    assert sink.data == b"last words"
    assert sink.ends == [True]
    assert stream.withdraw(unread)
    os.close(out_w)
    await sink.until(lambda: len(sink.ends) == 2)
    stream.close()


async def test_an_exception_in_a_callback_ends_its_own_stream_only(mover):
    good, bad = Sink(), Sink()
    bad.on_bytes = lambda data: 1 // 0
    good_stream, good_peer = sockets(mover, good)
    bad_stream, bad_peer = sockets(mover, bad)

    bad_peer.sendall(b"boom")
    await bad.until(lambda: bad.crashes)
    good_peer.sendall(b"fine")
    await good.until(lambda: good.data)

    assert isinstance(bad.crashes[0], ZeroDivisionError)
    for thing in (good_stream, bad_stream, good_peer, bad_peer):
        thing.close()


async def test_timers_fire_in_order_and_cancelled_ones_do_not(autojump_clock, nursery):
    timers, fired = Timers(), []
    nursery.start_soon(timers.run)
    timers.after(3, lambda: fired.append((3, trio.current_time())))
    doomed = timers.after(2, lambda: fired.append("never"))
    await trio.sleep(0.5)
    timers.after(0.5, lambda: fired.append((1, trio.current_time())))
    doomed.cancel()

    await trio.sleep(10)

    assert [what for what, _ in fired] == [1, 3]
    assert len(timers) == 0
    nursery.cancel_scope.cancel()


async def test_a_heap_of_cancelled_timers_does_not_grow(autojump_clock, nursery):
    timers = Timers()
    nursery.start_soon(timers.run)

    for _ in range(50_000):
        timers.after(30, lambda: None).cancel()

    assert len(timers) == 0
    assert len(timers._heap) < 5_000
    nursery.cancel_scope.cancel()
