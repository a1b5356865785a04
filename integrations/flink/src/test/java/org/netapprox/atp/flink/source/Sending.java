package org.netapprox.atp.flink.source;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import org.netapprox.atp.Job;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.WindowSender;
import org.netapprox.atp.WindowSenderBuilder;

/** A sender of the stream of one partition, whose records have 10 ms between them. */
final class Sending implements AutoCloseable {
    /** Records per window. */
    static final int WINDOW = 50;

    /** The time of a window by event time. */
    static final long WINDOW_MS = WINDOW * 10;

    final WindowSender sender;
    private long offset;

    private Sending(WindowSender sender, long offset) {
        this.sender = sender;
        this.offset = offset;
    }

    /** Options with windows by number. */
    static WindowSenderBuilder byNumber(int partition) {
        return options(partition).records(WINDOW);
    }

    /** Options with windows by event time. */
    static WindowSenderBuilder byTime(int partition) {
        return options(partition)
                .length(Duration.ofMillis(WINDOW_MS))
                .watermarkDelay(Duration.ZERO);
    }

    private static WindowSenderBuilder options(int partition) {
        return WindowSender.builder("readings")
                .partition(partition)
                .retry(Duration.ofMinutes(5))
                .job(Job.builder().noDaemon());
    }

    static Sending to(String address, WindowSenderBuilder options) throws Exception {
        return new Sending(options.open(address), 0);
    }

    /** Goes on where an earlier sender was. */
    static Sending from(WindowSender.State state, String address, WindowSenderBuilder options)
            throws Exception {
        WindowSender sender = options.position(state.position().orElseThrow()).open(address);
        return new Sending(sender, state.resumeOffset().orElseThrow());
    }

    /** Sends records. Waits while too many windows aren't confirmed. */
    void send(int records) throws Exception {
        for (int i = 0; i < records; i++) {
            byte[] value = Long.toString(offset % 10).getBytes(StandardCharsets.UTF_8);
            OptionalLong time = OptionalLong.of(offset * 10);
            sender.send(new WindowRecord(offset, time, null, value, List.of()), null);
            offset++;
        }
    }

    /** Sends whole windows, and waits until they are confirmed. */
    void windows(int windows) throws Exception {
        send(windows * WINDOW);
        // No record of them follows, so the last one by event time isn't just a part.
        sender.advance(offset * 10);
        sender.flush();
    }

    @Override
    public void close() {
        sender.close();
    }
}
