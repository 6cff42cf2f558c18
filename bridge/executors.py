"""The thread pools of a server: one for each kind of waiting, so that a slow disk does not hold up loads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from bridge.settings import Settings

SCAN_THREADS = 8
LOAD_THREADS = 4
STORE_THREADS = 8


class Executors:
    """`scans` look at base paths, `loads` read and write models, `stores` download versions, `storages` what is
    registered, `contents` reads what was loaded byte for byte."""

    def __init__(self, settings: Settings) -> None:
        self.scans = ThreadPoolExecutor(SCAN_THREADS, thread_name_prefix="scan")
        self.loads = ThreadPoolExecutor(max(LOAD_THREADS, settings.load_concurrency), thread_name_prefix="load")
        self.stores = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="store")
        self.storages = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="storage")
        self.contents = ThreadPoolExecutor(1, thread_name_prefix="content")

    def shut_down(self) -> None:
        """Start nothing more; what hangs in a thread is not waited for."""
        for executor in (self.scans, self.loads, self.stores, self.storages, self.contents):
            executor.shutdown(wait=False, cancel_futures=True)
