"""Leases: one holder at a time, whatever dies; a clock that the test turns."""

import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from crosstraj.experiments.cluster import owners
from crosstraj.experiments.cluster.owners import Answer, Holder, Lease, Registry, claim, myself

FIRST = Holder("run", "driver", "here", 1, "x")
SECOND = Holder("run", "driver", "there", 2, "y")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(owners.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def granted(answer: Answer) -> Holder:
    assert answer.granted
    assert answer.holder is not None
    return answer.holder


def test_a_lease_is_one_holders_until_its_end_and_renewing_moves_the_end(clock: Clock) -> None:
    registry = Registry(30)
    first = granted(registry.claim(FIRST))
    clock.now += 29
    assert registry.claim(SECOND) == Answer(False, first)
    assert registry.renew(first) == "held"
    clock.now += 29
    assert not registry.claim(SECOND).granted
    clock.now += 2
    second = granted(registry.claim(SECOND))
    assert second.token > first.token
    assert registry.renew(first) == "lost"
    registry.release(first)  # is not its own any more
    assert registry.holders("driver") == {"run": second.token}
    registry.release(second)
    assert registry.close()


def test_who_did_not_hear_the_answer_may_ask_again(clock: Clock) -> None:
    registry = Registry(30)
    first = granted(registry.claim(FIRST))
    again = granted(registry.claim(FIRST))
    assert again.token > first.token
    assert registry.renew(first) == "lost"


def test_what_is_held_under_another_name_is_no_obstacle(clock: Clock) -> None:
    registry = Registry(30)
    granted(registry.claim(FIRST))
    granted(registry.claim(SECOND._replace(key="another run")))
    assert len(registry.holders("driver")) == 2
    assert registry.holders("another driver") == {}


def test_a_newcomer_that_knows_the_holder_to_be_dead_need_not_wait(clock: Clock) -> None:
    registry = Registry(30)
    first = granted(registry.claim(FIRST))
    assert not registry.claim(SECOND, dead=first.token - 1).granted  # of an earlier one
    assert granted(registry.claim(SECOND, dead=first.token)).pid == SECOND.pid


def test_one_that_forgot_waits_for_every_lease_and_believes_their_holders(clock: Clock) -> None:
    first = granted(Registry(30).claim(FIRST))
    registry = Registry(30, forgot=True)
    assert registry.claim(SECOND) == Answer(False, None)
    clock.now += 20
    assert registry.renew(first) == "held"
    clock.now += 15  # all that were forgotten and not renewed have ended
    assert registry.claim(SECOND).holder == first
    assert granted(registry.claim(SECOND._replace(key="another run")))
    assert registry.renew(SECOND._replace(key="unknown", token=7)) == "lost"


def test_a_driver_that_follows_a_dead_one_brings_a_new_registry_to_wait(clock: Clock) -> None:
    old = Registry(30)
    assert old.follow(0) == old.born  # nobody before
    assert old.follow(old.born) == old.born  # the driver died, the registry did not
    granted(old.claim(FIRST))
    new = Registry(30)
    assert new.born != old.born
    assert new.follow(old.born) == new.born
    assert new.claim(SECOND) == Answer(False, None)
    clock.now += 30
    granted(new.claim(SECOND))


def test_a_session_that_stops_is_told_and_begins_nothing(clock: Clock) -> None:
    registry = Registry(30)
    first = granted(registry.claim(FIRST))
    registry.stop("driver")
    assert registry.renew(first) == "stop"
    assert registry.claim(SECOND._replace(key="another run")) == Answer(False, None, stop=True)
    granted(registry.claim(SECOND._replace(key="another run", session="another driver")))


def test_a_registry_that_is_about_to_end_gives_no_lease_and_does_not_wait_for_ever(
    clock: Clock,
) -> None:
    registry = Registry(30)
    first = granted(registry.claim(FIRST))
    assert not registry.close()  # somebody needs it
    granted(registry.claim(SECOND._replace(key="another run")))
    registry.release(first)
    clock.now += 30
    assert registry.close()
    assert registry.claim(FIRST) == Answer(False, None)  # it would be forgotten with the registry
    clock.now += 30  # who was to end it has died
    granted(registry.claim(FIRST))


def test_a_holder_lets_go_before_its_lease_ends_however_late_the_answers_are() -> None:
    """Just before it stops to believe it may rest once more, and wait for one more answer."""
    assert owners.BELIEVE + owners.RENEW + owners.ANSWER <= 0.95


def test_a_dead_holder_is_seen_on_this_machine_alone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = myself("run", "driver")._replace(pid=child.pid, began=owners.began(child.pid))
    assert holder.began
    assert not owners.seen_dead(holder)
    assert owners.seen_dead(holder._replace(began="0"))  # its number was given again
    registry = Registry(30)
    granted(registry.claim(holder))

    def ask(method: str, *arguments: Any) -> Any:
        return getattr(registry, method)(*arguments)

    assert not claim(ask, myself("run", "driver")).granted
    child.kill()  # and nobody has asked for its exit code yet: it is a zombie
    while owners.began(child.pid):
        time.sleep(0.01)
    assert owners.seen_dead(holder)
    assert not owners.seen_dead(holder._replace(host="elsewhere"))
    assert granted(claim(ask, myself("run", "driver"))).pid == os.getpid()
    child.communicate()


def test_a_holder_that_hears_nothing_lets_go_before_another_may_begin(clock: Clock) -> None:
    """Each renewal costs a rest, and while nobody answers the longest wait for an answer, too."""
    registry = Registry(1.0)
    held = granted(registry.claim(myself("run", "driver")))
    let_go, reachable, renewed = threading.Event(), threading.Event(), threading.Semaphore(0)
    reachable.set()

    def ask(method: str, *arguments: Any) -> Any:
        clock.now += owners.RENEW
        if not reachable.is_set():
            clock.now += owners.ANSWER
            raise TimeoutError
        answer = getattr(registry, method)(*arguments)
        renewed.release()
        return answer

    with Lease(ask, held, clock.now, 1.0, let_go.set) as lease:
        for _ in range(15):  # half as long again as it lasts
            assert renewed.acquire(timeout=60)
        assert not let_go.is_set()
        reachable.clear()
        assert let_go.wait(60)
        assert lease.lost.is_set()
        assert not registry.claim(SECOND).granted
        clock.now += 1
        granted(registry.claim(SECOND))


def test_a_lease_hands_on_the_wish_to_stop_and_is_free_afterwards(clock: Clock) -> None:
    registry = Registry(1.0)
    held = granted(registry.claim(FIRST))
    ask = lambda method, *arguments: getattr(registry, method)(*arguments)  # noqa: E731
    with Lease(ask, held, clock.now, 1.0, lambda: None) as lease:
        registry.stop("driver")
        assert lease.stop.wait(60)
        assert not lease.lost.is_set()
    assert registry.close()
