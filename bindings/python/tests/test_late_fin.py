"""A job that is canceled while a relay between real sockets holds back an earlier FIN.

The relay acknowledges packets that it drops, as a host does whose socket buffer is full. So the
sender asks for the end. The relay holds that FIN, drops the answer to the forced one that follows,
and delivers the FIN that it held. Its answer must not pass for a complete end.
"""

from __future__ import annotations

import select
import socket
import threading

import atp
from ends import LIMIT_S, bind, connect, receive

MESSAGES = 100
NEEDED = 80
ARRIVING = 57

DATA, ACK, FIN, FIN_ACK = 1, 2, 5, 6
FORCED = 8


class Relay:
    """Relays the packets of one job between ``near`` and ``far`` until ``stop`` is set."""

    def __init__(self, receiver: tuple[str, int]) -> None:
        self.near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.near.bind(("127.0.0.1", 0))
        self.far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.far.connect(receiver)
        self.address: tuple[str, int] = self.near.getsockname()
        self.sender: tuple[str, int] | None = None
        self.held: bytes | None = None
        self.is_held = threading.Event()
        self.delivered: bytes | None = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.stop.is_set():
            for ready in select.select([self.near, self.far], [], [], 0.1)[0]:
                if ready is self.near:
                    self.from_sender()
                else:
                    self.from_receiver()

    def from_sender(self) -> None:
        packet, self.sender = self.near.recvfrom(65_536)
        kind = packet[1] & 15
        if kind == DATA and int.from_bytes(packet[12:16], "big") >= ARRIVING:
            ack = packet[:1] + bytes([packet[1] & 240 | ACK]) + packet[2:32]
            self.near.sendto(ack, self.sender)
        elif kind == FIN and not packet[2] & FORCED and self.delivered is None:
            self.held = packet
            self.is_held.set()
        else:
            self.far.send(packet)

    def from_receiver(self) -> None:
        packet = self.far.recv(65_536)
        attempt = packet[16:19]
        if packet[1] & 15 == FIN_ACK:
            # The first one answers the forced FIN.
            if self.held is not None:
                self.delivered = self.held[16:19]
                self.far.send(self.held)
                self.held = None
            if self.delivered != attempt:
                return
        if self.sender is not None:
            self.near.sendto(packet, self.sender)

    def close(self) -> None:
        self.stop.set()
        self.thread.join(LIMIT_S)
        self.near.close()
        self.far.close()


def test_a_canceled_job_is_not_complete_although_an_earlier_fin_is_answered_last() -> None:
    receiver = bind()
    relay = Relay(receiver.address)
    summaries: list[atp.Summary] = []
    received = threading.Thread(target=lambda: summaries.append(receive(receiver)[2]))
    received.start()
    job = connect(relay.address, messages=MESSAGES, msr=0.8, packing=False)
    for value in range(MESSAGES):
        try:
            job.send(value.to_bytes(4) * 200)
        except atp.Error:
            break  # The job is ending: the host has what it needs.
    assert relay.is_held.wait(LIMIT_S)
    report = job.cancel(timeout=LIMIT_S)
    received.join(LIMIT_S)
    relay.close()
    assert report.canceled and not summaries[0].complete
    assert summaries[0].delivered == report.groups[0].delivered == ARRIVING
    assert report.groups[0].needed == NEEDED
