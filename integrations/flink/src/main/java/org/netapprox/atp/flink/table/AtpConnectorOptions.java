package org.netapprox.atp.flink.table;

import java.time.Duration;
import java.util.List;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.MemorySize;

/**
 * The options of a table {@code WITH ('connector' = 'atp', ...)}. Semicolons separate the entries
 * of a list.
 */
public final class AtpConnectorOptions {
    /** To read: the addresses where senders' windows arrive. */
    public static final ConfigOption<List<String>> LISTEN =
            ConfigOptions.key("listen")
                    .stringType()
                    .asList()
                    .noDefaultValue()
                    .withDescription("Addresses with UDP ports where windows arrive; to read.");

    /** To read: the addresses of the senders that are admitted. */
    public static final ConfigOption<List<String>> SENDERS =
            ConfigOptions.key("senders")
                    .stringType()
                    .asList()
                    .noDefaultValue()
                    .withDescription("Admitted IP addresses of senders; all by default.");

    /** To read: the streams that each address awaits. */
    public static final ConfigOption<Integer> STREAMS =
            ConfigOptions.key("streams")
                    .intType()
                    .defaultValue(1)
                    .withDescription("Streams of each address that the watermark awaits at first.");

    /** To read: the most streams of each address. */
    public static final ConfigOption<Integer> STREAMS_MAX =
            ConfigOptions.key("streams-max")
                    .intType()
                    .noDefaultValue()
                    .withDescription("The most streams of each address; one more is refused.");

    /** To read: when a silent stream holds the watermark back no longer. */
    public static final ConfigOption<Duration> IDLE_TIMEOUT =
            ConfigOptions.key("idle-timeout")
                    .durationType()
                    .noDefaultValue()
                    .withDescription("A stream that is silent so long holds back no watermark.");

    /** To read: when the job fails for want of a sender. */
    public static final ConfigOption<Duration> SENDER_TIMEOUT =
            ConfigOptions.key("sender-timeout")
                    .durationType()
                    .noDefaultValue()
                    .withDescription("The job fails if nobody has sent a window by then; 0: never.");

    /** To read: the most memory of open windows. */
    public static final ConfigOption<MemorySize> MEMORY_MAX =
            ConfigOptions.key("memory-max")
                    .memoryType()
                    .noDefaultValue()
                    .withDescription("The most memory of windows that are open, of each address.");

    /** To write: the receivers. */
    public static final ConfigOption<List<String>> PEERS =
            ConfigOptions.key("peers")
                    .stringType()
                    .asList()
                    .noDefaultValue()
                    .withDescription("Hosts with ports of receivers of windows; to write.");

    /** To write: the name of the stream. */
    public static final ConfigOption<String> TOPIC =
            ConfigOptions.key("topic")
                    .stringType()
                    .noDefaultValue()
                    .withDescription("The name of the streams that are written.");

    /** The minimal sampling rate: that of what is written, and the least that is read. */
    public static final ConfigOption<Double> MSR =
            ConfigOptions.key("msr")
                    .doubleType()
                    .noDefaultValue()
                    .withDescription(
                            "The share of each window's records that must arrive, 0 to 1. A table"
                                    + " that is read refuses windows with a lower rate.");

    /** To write: the share that is sent while there is room. */
    public static final ConfigOption<Double> MSR_MAX =
            ConfigOptions.key("msr-max")
                    .doubleType()
                    .noDefaultValue()
                    .withDescription("The share that is sent while there is room; msr by default.");

    /** To write: the event time of windows. */
    public static final ConfigOption<Duration> WINDOW =
            ConfigOptions.key("window")
                    .durationType()
                    .noDefaultValue()
                    .withDescription("The event time of each window that is written.");

    /** To write: the records of windows. */
    public static final ConfigOption<Long> WINDOW_RECORDS =
            ConfigOptions.key("window-records")
                    .longType()
                    .noDefaultValue()
                    .withDescription("The records of each window, in the place of its time.");

    /** To write: how long a receiver may be away. */
    public static final ConfigOption<Duration> RETRY =
            ConfigOptions.key("retry")
                    .durationType()
                    .noDefaultValue()
                    .withDescription("The job fails if a receiver is away for longer.");

    /** To write: whether records wait for a checkpoint. */
    public static final ConfigOption<Boolean> HOLD_UNTIL_CHECKPOINT =
            ConfigOptions.key("hold-until-checkpoint")
                    .booleanType()
                    .noDefaultValue()
                    .withDescription(
                            "Whether records leave only once a checkpoint has them. By default"
                                    + " they do in jobs with checkpoints. Without, each counts once"
                                    + " after a restore only if Flink gives them in the same"
                                    + " order.");

    /** The control socket of the daemon of each host. */
    public static final ConfigOption<String> DAEMON =
            ConfigOptions.key("daemon")
                    .stringType()
                    .noDefaultValue()
                    .withDescription(
                            "The path of the daemon's control socket, or 'none'. By default the"
                                    + " daemon of the host is used, if there is one.");

    private AtpConnectorOptions() {}
}
