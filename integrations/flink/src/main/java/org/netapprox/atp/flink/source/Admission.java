package org.netapprox.atp.flink.source;

import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.netapprox.atp.Window;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.WindowStream;

/**
 * Refuses windows that an address can't take. So its streams are bounded, and with them its memory
 * and its checkpoints.
 *
 * <p>A stream is known for ever, also behind its sender's end of the job. The end says that all
 * windows were confirmed, not that the sender's own checkpoint knows of it: restored from an older
 * one, the sender sends them again. Only the stream's offsets say then that they were counted.
 *
 * <p>The fetcher's thread and the task's thread decide by the same events, and so alike.
 */
final class Admission {
    /** The most bytes of each of a stream's names. */
    static final int NAME_BYTES_MAX = 1_024;

    private static final int SHOWN_MAX = 64;

    private Admission() {}

    /** The reason to refuse a window; empty for one that can be emitted. */
    static Optional<String> refusal(
            Window window, StreamWatermarks known, SourceOptions options) {
        Optional<String> refusal = refusal(window.stream(), known, options);
        if (refusal.isPresent() || !isBeyondJava(window)) {
            return refusal;
        }
        return Optional.of(
                "an offset or a number of its window " + window.id().number() + " is 2^63 or"
                        + " more, which Java doesn't have: begin its offsets at a lower one");
    }

    /** The library's numbers have no sign. */
    private static boolean isBeyondJava(Window window) {
        LongStream numbers =
                LongStream.of(
                        window.nextOffset(),
                        window.records(),
                        window.late(),
                        window.skipped(),
                        window.repeated());
        LongStream ends =
                Stream.concat(window.lost().stream(), window.refused().stream())
                        .mapToLong(range -> range.end());
        LongStream offsets =
                window.samples().stream()
                        .flatMap(sample -> sample.records().stream())
                        .mapToLong(WindowRecord::offset);
        return Stream.of(numbers, ends, offsets)
                .flatMapToLong(all -> all)
                .anyMatch(number -> number < 0);
    }

    /** The reason to refuse a stream; empty for one that is known or may become so. */
    static Optional<String> refusal(
            WindowStream stream, StreamWatermarks known, SourceOptions options) {
        if (known.has(stream)) {
            return Optional.empty();
        }
        if (known.seen() >= options.streamsMax()) {
            return Optional.of(
                    known.seen() + " streams are known, and none is forgotten: raise streamsMax,"
                            + " or start the source without its state");
        }
        int bytes =
                Stream.of(
                                stream.cluster(),
                                stream.consumerGroup(),
                                stream.topic(),
                                stream.topicId())
                        .mapToInt(name -> name.getBytes(StandardCharsets.UTF_8).length)
                        .max()
                        .getAsInt();
        return bytes <= NAME_BYTES_MAX
                ? Optional.empty()
                : Optional.of(
                        "one of its names has " + bytes + " bytes, more than " + NAME_BYTES_MAX
                                + ": give its sender shorter ones");
    }

    /** A stream in the words of a log. */
    static String shown(WindowStream stream) {
        String text = stream.toString();
        return text.length() <= SHOWN_MAX ? text : text.substring(0, SHOWN_MAX) + "...";
    }
}
