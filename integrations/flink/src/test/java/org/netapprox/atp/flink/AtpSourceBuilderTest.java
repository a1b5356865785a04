package org.netapprox.atp.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class AtpSourceBuilderTest {
    private static AtpSourceBuilder<String> builder() {
        return AtpSource.builder(RecordDeserializer.values(new SimpleStringSchema()));
    }

    private static void refuses(String sentence, Executable call) {
        assertEquals(sentence, assertThrows(IllegalArgumentException.class, call).getMessage());
    }

    @Test
    void build__refusesBadInput() {
        refuses(
                "the source has no address: call listen, for example with 0.0.0.0:4747",
                () -> builder().build());
        refuses(
                "\"readings\" is no address to listen at: give an IP address with a port of 1 to"
                        + " 65535, such as 0.0.0.0:4747 or [::]:4747",
                () -> builder().listen("0.0.0.0:4747", "readings"));
        refuses(
                "the source listens at 0.0.0.0:1 already: name each address once",
                () -> builder().listen("0.0.0.0:1").listen("0.0.0.0:1"));
        refuses(
                "the sender \"broker\" is no IP address: give one such as 10.0.0.3",
                () -> builder().senders("10.0.0.3", "broker"));
        refuses("streams must be 1 or more, not 0", () -> builder().streams(0));
        refuses("streamsMax must be 1 or more, not 0", () -> builder().streamsMax(0));
        refuses(
                "the source expects 3 streams at each address, and takes 2 at most: raise"
                        + " streamsMax",
                () -> builder().listen("0.0.0.0:1").streams(3).streamsMax(2).build());
        refuses(
                "idleTimeout must be 0 or longer, not PT-0.001S",
                () -> builder().idleTimeout(Duration.ofMillis(-1)));
        refuses(
                "senderTimeout must be 0 or longer, not PT-1S",
                () -> builder().senderTimeout(Duration.ofSeconds(-1)));
        refuses("memoryBytesMax must be 1 or more, not 0", () -> builder().memoryBytesMax(0));
        refuses(
                "the daemon's path must be absolute, since it is another host's, not atp.sock",
                () -> builder().daemon("atp.sock"));
    }

    @Test
    void answer__refusesAWrongQuery() {
        RowFunction row = record -> new Object[] {record.offset()};
        assertThrows(
                IllegalArgumentException.class,
                () -> builder().answer("median of all", List.of("v"), row));
        assertThrows(
                IllegalArgumentException.class,
                () -> builder().answer("avg(w)", List.of("v"), row));
        builder().answer("avg(v)", List.of("v"), row);
    }

    @Test
    void build__makesASourceThatCanBeSent() throws Exception {
        AtpSource<String> source =
                builder()
                        .listen("0.0.0.0:1", "[::1]:2")
                        .senders("10.0.0.3")
                        .streams(2)
                        .idleTimeout(Duration.ofDays(1_000_000))
                        .senderTimeout(Duration.ZERO)
                        .memoryBytesMax(1)
                        .noDaemon()
                        .answer("avg(v)", List.of("v"), record -> new Object[] {1})
                        .build();
        AtpSource<String> sent = InstantiationUtil.clone(source);
        assertEquals(Boundedness.CONTINUOUS_UNBOUNDED, sent.getBoundedness());
        assertEquals(
                Boundedness.BOUNDED, builder().listen("[::]:1").bounded().build().getBoundedness());
    }

    /** Flink falls back to Kryo for a class that it takes for no POJO. */
    @Test
    void windowSummary__isAPojo() {
        for (Class<?> type :
                List.of(
                        WindowSummary.class,
                        WindowSummary.Group.class,
                        WindowSummary.Answer.class)) {
            var info = assertInstanceOf(PojoTypeInfo.class, TypeInformation.of(type));
            assertEquals(type.getFields().length, info.getArity());
            for (int i = 0; i < info.getArity(); i++) {
                TypeInformation<?> field = info.getPojoFieldAt(i).getTypeInformation();
                assertFalse(field instanceof GenericTypeInfo, info.getFieldNames()[i]);
                assertTrue(!field.toString().contains("GenericType"), field.toString());
            }
        }
    }
}
