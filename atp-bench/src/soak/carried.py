"""An ordinary server and its client, for `atp-run`: lines over TCP, and datagrams.

At the end of its input, the client prints the number of lines and datagrams that came back.
"""

import select
import selectors
import socket
import sys
import time

LIMIT_S = 60


def serve(lines_port: int, datagrams_port: int) -> None:
    listener = socket.create_server(("0.0.0.0", lines_port))
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(("0.0.0.0", datagrams_port))
    ready = selectors.DefaultSelector()
    for one in (listener, datagrams):
        ready.register(one, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in ready.select():
            if key.fileobj is listener:
                ready.register(listener.accept()[0], selectors.EVENT_READ)
            elif key.fileobj is datagrams:
                datagrams.sendto(*datagrams.recvfrom(2_000))
            else:
                try:
                    data = key.fileobj.recv(2_000)
                    key.fileobj.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    ready.unregister(key.fileobj)
                    key.fileobj.close()


def ask(address: str, lines_port: int, datagrams_port: int) -> None:
    lines, datagrams = 0, 0
    teller = socket.socket(type=socket.SOCK_DGRAM)
    teller.settimeout(LIMIT_S)
    while not select.select([sys.stdin], [], [], 0)[0]:
        with socket.create_connection((address, lines_port), LIMIT_S) as connection:
            reader = connection.makefile()
            for _ in range(10):
                connection.sendall(b"line %d\n" % lines)
                back = reader.readline()
                assert back == f"line {lines}\n", f"line {lines} became {back!r}"
                lines += 1
                teller.sendto(b"%d" % datagrams, (address, datagrams_port))
                back = teller.recv(2_000)
                assert back == b"%d" % datagrams, f"datagram {datagrams} became {back!r}"
                datagrams += 1
                time.sleep(0.05)
    print(lines, datagrams)


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    if role == "serve":
        serve(*map(int, words))
    else:
        ask(words[0], *map(int, words[1:]))
