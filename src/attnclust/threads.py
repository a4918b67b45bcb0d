"""Work shared among threads, each with a BLAS of one thread.

A BLAS that shares out small matrices spends its time waiting, and leaves what is no product to one
thread. Results come in the order of the items, so nothing depends on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
Item = TypeVar("Item")


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


class _Users:
    """How many callers have the BLAS at one thread, and what to give it back."""

    lock, count, limit, threads = Lock(), 0, None, 1


@contextmanager
def _one_thread_blas() -> Iterator[int]:
    """The BLAS at one thread, for all callers at a time; how many it had."""
    with _Users.lock:
        if _Users.count == 0:
            known = [library.num_threads for library in _blas().lib_controllers]
            _Users.threads = max(known, default=1)
            _Users.limit = _blas().limit(limits=1)
        _Users.count += 1
    try:
        yield _Users.threads
    finally:
        with _Users.lock:
            _Users.count -= 1
            if _Users.count == 0:
                limit: Any = _Users.limit
                limit.restore_original_limits()


def spread(work: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
    """Results of `work` in the order of the items, on as many threads as the BLAS would use.

    Parameters
    ----------
    work : callable
        Of one item; must not depend on the others.
    items : iterable
        All are read at once.

    Yields
    ------
    object

    Examples
    --------
    >>> list(spread(abs, [-2, -3]))
    [2, 3]
    """
    with _one_thread_blas() as threads:
        if threads == 1:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(work, items)
