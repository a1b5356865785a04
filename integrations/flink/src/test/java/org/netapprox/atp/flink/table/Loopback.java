package org.netapprox.atp.flink.table;

import java.util.concurrent.atomic.AtomicInteger;

/** Addresses of the loopback that no other process has: its id is in them. */
final class Loopback {
    private static final AtomicInteger NEXT = new AtomicInteger(5_000);

    private Loopback() {}

    static String address() {
        int id = (int) ProcessHandle.current().pid();
        return String.format(
                "127.%d.%d.%d:%d",
                128 | id >> 16 & 127, id >> 8 & 255, id & 255, NEXT.getAndIncrement());
    }
}
