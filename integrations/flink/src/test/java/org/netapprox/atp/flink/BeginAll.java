package org.netapprox.atp.flink;

/** The sink's option that only {@link LossyStage} sets, for tests in other packages. */
public final class BeginAll {
    private BeginAll() {}

    public static <T> AtpSinkBuilder<T> streams(AtpSinkBuilder<T> sink) {
        return sink.beginAllStreams(true);
    }
}
