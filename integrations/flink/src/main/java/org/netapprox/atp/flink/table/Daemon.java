package org.netapprox.atp.flink.table;

import java.util.function.Consumer;

/** The option {@code daemon}. */
final class Daemon {
    private static final String NONE = "none";

    private Daemon() {}

    static void apply(String daemon, Runnable none, Consumer<String> path) {
        if (daemon.equals(NONE)) {
            none.run();
        } else {
            path.accept(daemon);
        }
    }
}
