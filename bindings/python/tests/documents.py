"""Runs the Python samples of Markdown pages as they stand, except for two addresses: `PEER` becomes
that of a receiver here, and `LOCAL` that of a port to which jobs are sent from here.

As a program it runs the samples of one page: `python documents.py PAGE`.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import atp

PEER = "10.0.0.2:4747"
LOCAL = "0.0.0.0:4747"
LIMIT_S = 30.0


def samples(page: Path) -> list[str]:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks, f"{page} has no samples"
    return [str(block) for block in blocks]


def run(sample: str) -> str:
    """The output of a sample."""
    takes = windows_receiver if "WindowSender" in sample else receiver
    with takes() as peer, free_port() as local, TemporaryDirectory() as folder:
        script = sample.replace(PEER, peer).replace(LOCAL, local)
        run = [sys.executable, "-c", script]
        process = subprocess.Popen(run, stdout=subprocess.PIPE, text=True, cwd=folder)
        if LOCAL in sample:
            feeds = feed_windows if "kafka.windows" in sample else feed
            threading.Thread(target=feeds, args=(local, process), daemon=True).start()
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert process.returncode == 0, f"exit status {process.returncode}:\n{sample}"
    return output


@contextmanager
def receiver() -> Iterator[str]:
    """The address of a receiver that takes all that comes."""
    with atp.Receiver("127.0.0.1:0", control_socket=None) as receiver:
        threading.Thread(target=lambda: [None for _ in receiver], daemon=True).start()
        host, port = receiver.address
        yield f"{host}:{port}"


@contextmanager
def windows_receiver() -> Iterator[str]:
    """The address of a receiver that confirms all windows."""
    with atp.kafka.windows("127.0.0.1:0", control_socket=None) as windows:
        threading.Thread(target=lambda: [None for _ in windows], daemon=True).start()
        host, port = windows.address
        yield f"{host}:{port}"


@contextmanager
def free_port() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    yield f"127.0.0.1:{port}"


def feed(local: str, process: subprocess.Popen[str]) -> None:
    """Sends jobs of numbers around 1.5 until the sample has ended."""
    messages = [array("d", [1 + (m * 37 + n) % 101 / 100 for n in range(100)]) for m in range(200)]
    while process.poll() is None:
        try:
            number = len(messages)
            with atp.Job(
                local,
                messages=number,
                msr=0.9,
                order="shuffled",
                peer_timeout=1.0,
                control_socket=None,
            ) as job:
                job.send_many([message.tobytes() for message in messages])
        except atp.Error:
            pass  # The sample doesn't listen yet, or no longer.


def feed_windows(local: str, process: subprocess.Popen[str]) -> None:
    """Sends windows of temperatures around 21, until the sample has ended."""
    while process.poll() is None:
        try:
            with atp.kafka.WindowSender(
                local,
                topic="readings",
                records=1_000,
                groups={"temperatures": 0.9},
                peer_timeout=1.0,
                control_socket=None,
            ) as sender:
                for offset in range(3_000):
                    value = f'{{"room": {offset % 4}, "temperature": {20 + offset % 3}}}'
                    sender.send(offset, value, group="temperatures")
        except atp.Error:
            pass  # The sample doesn't listen yet, or no longer.


if __name__ == "__main__":
    for sample in samples(Path(sys.argv[1])):
        print(run(sample), end="")
