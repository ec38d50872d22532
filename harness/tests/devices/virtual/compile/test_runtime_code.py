"""The runtime's machine code: made once, whoever needs it."""

from __future__ import annotations

import threading

from backwarp.devices.virtual.compile import runtime_code


def test_threads_that_need_the_runtime_wait_for_the_one_that_compiles_it(monkeypatch):
    begun, others, makers = threading.Event(), threading.Event(), []

    def made() -> bytes:
        makers.append(threading.current_thread())
        begun.set()
        others.wait(10)
        return b"code"

    monkeypatch.setattr(runtime_code, "_provided", [])
    monkeypatch.setattr(runtime_code, "_made", made)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(runtime_code.code())) for _ in range(3)]
    threads[0].start()
    begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    others.set()
    for thread in threads:
        thread.join(10)
    assert found == [b"code"] * 3 and makers == threads[:1]
