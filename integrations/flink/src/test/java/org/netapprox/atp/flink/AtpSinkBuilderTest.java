package org.netapprox.atp.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.function.Consumer;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AtpSinkBuilderTest {
    private static AtpSinkBuilder<String> builder() {
        return AtpSink.<String>builder("lines", RecordSerializer.of(new SimpleStringSchema()));
    }

    private static AtpSinkBuilder<String> complete() {
        return builder().peers("10.0.0.2:4747").records(10);
    }

    /** One sentence that has these words. */
    private static void refuses(Consumer<AtpSinkBuilder<String>> option, String words) {
        AtpSinkBuilder<String> builder = complete();
        var refused =
                assertThrows(
                        IllegalArgumentException.class,
                        () -> {
                            option.accept(builder);
                            builder.build();
                        });
        String sentence = refused.getMessage();
        assertTrue(sentence.contains(words), sentence);
        assertFalse(sentence.contains("\n"), sentence);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"", "host", ":4747", "host:", "host:0", "host:65536", "host:-1", "a b:1",
                "1:2:3", "[]:1", "host:4747 ", "host:99999999999"})
    void peers__refusesWhatIsNoAddress(String text) {
        refuses(builder -> builder.peers("10.0.0.2:4747", text), "is no address");
    }

    @ParameterizedTest
    @ValueSource(strings = {"10.0.0.2:1", "host.example:65535", "[::1]:4747", "[fe80::1%eth0]:1"})
    void peers__takesAddresses(String text) {
        complete().peers(text).build();
    }

    @Test
    void peers__refusesNoneAndTwice() {
        refuses(builder -> builder.peers(), "has no peer");
        refuses(builder -> builder.peers("a:1", "b:1", "a:1"), "twice");
    }

    @ParameterizedTest
    @ValueSource(doubles = {-0.1, 1.1, Double.NaN, Double.POSITIVE_INFINITY})
    void msr__refusesWhatIsNoRate(double rate) {
        refuses(builder -> builder.msr(rate), "minimal sampling rate");
        refuses(builder -> builder.group("a", rate), "minimal sampling rate");
        refuses(builder -> builder.msrMax(rate), "highest sampling rate");
    }

    @Test
    void group__refusesANameTwice() {
        refuses(builder -> builder.group("a", 1).group("a", 0.5), "twice");
        refuses(builder -> builder.group("exact", 1), "one of ATP's");
        refuses(builder -> builder.group("records", 1), "one of ATP's");
        refuses(builder -> builder.group("a", 1), "groupBy");
        refuses(builder -> builder.groupBy(line -> "a"), "groupBy");
    }

    @Test
    void build__needsOneKindOfWindows() {
        refuses(builder -> builder.length(Duration.ofSeconds(1)), "not both");
        refuses(builder -> builder.beginAllStreams(true), "give length");
        var neither =
                assertThrows(IllegalArgumentException.class, () -> builder().peers("a:1").build());
        assertTrue(neither.getMessage().contains("give records"), neither.getMessage());
    }

    @Test
    void build__refusesNumbersOutOfTheirRange() {
        refuses(builder -> builder.records(0), "1 at least");
        refuses(builder -> builder.length(Duration.ZERO), "1 ms");
        refuses(builder -> builder.length(Duration.ofNanos(1)), "1 ms");
        refuses(builder -> builder.retry(Duration.ofSeconds(-1)), "retry");
        refuses(builder -> builder.windowBytesMax(0), "windowBytesMax");
        refuses(builder -> builder.logBytesMax(0), "logBytesMax");
        refuses(builder -> builder.logBytesMax(Long.MAX_VALUE), "logBytesMax");
        refuses(builder -> builder.rateMaxBytesPerSecond(0), "rateMaxBytesPerSecond");
        assertThrows(
                IllegalArgumentException.class,
                () -> AtpSink.builder("", RecordSerializer.of(new SimpleStringSchema())));
    }

    @Test
    void build__givesASinkThatTravels() throws Exception {
        for (boolean holds : new boolean[] {false, true}) {
            AtpSink<String> sink =
                    complete()
                            .group("long", 1)
                            .groupBy(line -> line.length() > 9 ? "long" : null)
                            .partitionBy(line -> line)
                            .holdUntilCheckpoint(holds)
                            .build();
            AtpSink<String> copy = InstantiationUtil.clone(sink);
            assertEquals(sink.options().groups(), copy.options().groups());
            assertEquals("long", copy.options().groupOf().apply("0123456789"));
        }
    }
}
