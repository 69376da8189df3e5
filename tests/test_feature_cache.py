"""The cache keeps its bound, forgets what was asked for longest ago, and computes nothing twice at a time."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhpf.feature_cache import FeatureCache


class Held(NamedTuple):
    """Something that takes memory."""

    key: int
    nbytes: int


def test_what_was_used_longest_ago_makes_room() -> None:
    computed: list[int] = []

    def compute(key: int) -> Held:
        computed.append(key)
        return Held(key, 10)

    cache = FeatureCache(compute, limit_bytes=25)
    for key in (0, 1, 0, 2, 0, 1):  # 2 drives out 1, which was used longest ago
        assert cache.get(key) == Held(key, 10)
        assert cache.held_bytes <= 25
    assert computed == [0, 1, 2, 1]
    assert cache.computed == 4


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(0, 60))
def test_the_bound_holds(keys: list[int], limit: int) -> None:
    """For values of many sizes; one that is larger than the bound is the only one held."""
    cache = FeatureCache(lambda key: Held(key, 3 * key), limit)
    for key in keys:
        assert cache.get(key).key == key
        assert cache.held_bytes <= max(limit, 3 * key)


def test_an_error_is_not_held() -> None:
    attempts: list[int] = []

    def compute(key: int) -> Held:
        attempts.append(key)
        if len(attempts) == 1:
            raise ValueError("damaged")
        return Held(key, 1)

    cache = FeatureCache(compute, limit_bytes=100)
    with pytest.raises(ValueError, match="damaged"):
        cache.get(7)
    assert cache.held_bytes == 0
    assert cache.get(7) == Held(7, 1)


def test_threads_that_ask_for_the_same_wait_for_it() -> None:
    """Four threads ask while the first computes: it is computed once. Another key does not wait."""
    begun, released = threading.Event(), threading.Event()
    computed: Counter[str] = Counter()

    def compute(key: str) -> Held:
        computed[key] += 1
        if key == "slow":
            begun.set()
            assert released.wait(60)
        return Held(0, 1)

    cache = FeatureCache(compute, limit_bytes=0)  # nothing but the newest is held
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(cache.get, "slow") for _ in range(4)]
        assert begun.wait(60)
        assert pool.submit(cache.get, "quick").result(60) == Held(0, 1)
        assert not any(future.done() for future in waiting)
        released.set()
        assert [future.result(60) for future in waiting] == [Held(0, 1)] * 4
    assert computed == {"slow": 1, "quick": 1}


def test_an_error_goes_to_all_who_wait() -> None:
    begun, released = threading.Event(), threading.Event()

    def compute(key: int) -> Held:
        begun.set()
        assert released.wait(60)
        raise ValueError("damaged")

    cache = FeatureCache(compute, limit_bytes=10)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get, 1)
        assert begun.wait(60)
        threading.Timer(0.2, released.set).start()
        with pytest.raises(ValueError, match="damaged"):
            cache.get(1)  # whether it waits for the first or comes after it
        with pytest.raises(ValueError, match="damaged"):
            first.result(60)


def test_many_threads_at_random() -> None:
    keys = [index * index % 17 for index in range(2000)]
    cache = FeatureCache(lambda key: Held(key, key), limit_bytes=40)
    with ThreadPoolExecutor(8) as pool:
        assert [held.key for held in pool.map(cache.get, keys)] == keys
    assert cache.held_bytes <= 40
