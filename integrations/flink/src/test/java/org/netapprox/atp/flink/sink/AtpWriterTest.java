package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.core.io.SimpleVersionedSerialization;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.Window;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSinkBuilder;

/** A writer that fails and begins again, without a cluster. */
class AtpWriterTest {
    private static final int WINDOW_MS = 100;

    private static AtpSinkBuilder<Long> builder(TestReceiver... receivers) {
        String[] peers = new String[receivers.length];
        for (int at = 0; at < peers.length; at++) {
            peers[at] = receivers[at].address();
        }
        return AtpSink.<Long>builder("numbers", SinkJob::bytes)
                .peers(peers)
                .partitioner(number -> number < 100 ? 0 : 1)
                .length(Duration.ofMillis(WINDOW_MS))
                .noDaemon();
    }

    private static StatefulSinkWriter<Long, StreamState> restore(
            AtpSink<Long> sink, long checkpoint, List<StreamState> states) throws Exception {
        return sink.restoreWriter(WriterContext.of(OptionalLong.of(checkpoint)), states);
    }

    /** Numbers that are their event times. */
    private static void write(StatefulSinkWriter<Long, StreamState> writer, long from, long to)
            throws Exception {
        for (long number = from; number < to; number++) {
            writer.write(number, WriterContext.record(number));
            writer.writeWatermark(new Watermark(number - 1));
        }
    }

    /** The states of a checkpoint, as a later writer reads them. */
    private static List<StreamState> checkpoint(
            StatefulSinkWriter<Long, StreamState> writer, long number) throws Exception {
        var serializer = new StreamStateSerializer();
        List<StreamState> states = new ArrayList<>();
        for (StreamState state : writer.snapshotState(number)) {
            byte[] bytes = SimpleVersionedSerialization.writeVersionAndSerialize(serializer, state);
            states.add(SimpleVersionedSerialization.readVersionAndDeSerialize(serializer, bytes));
        }
        return states;
    }

    private static void end(StatefulSinkWriter<Long, StreamState> writer) throws Exception {
        writer.writeWatermark(Watermark.MAX_WATERMARK);
        writer.flush(true);
        writer.close();
    }

    /** All records from a number on arrived, and each counted once. */
    private static void checkOnce(TestReceiver receiver, long from, long to) {
        var ids = TestReceiver.ids(receiver.windows(), "exact");
        assertEquals(to - from, ids.size());
        assertTrue(ids.values().stream().allMatch(times -> times == 1), ids::toString);
        assertEquals(to - from, receiver.records());
    }

    /** Windows are confirmed, and the job fails: the source begins at its first record again. */
    @Test
    void create__countsOnceAfterAFailureBeforeTheFirstCheckpoint() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink = builder(receiver).build();
            var first = sink.createWriter(WriterContext.of(OptionalLong.empty()));
            write(first, 0, 250);
            receiver.await(all -> all.records() == 200);
            first.close();
            var second = sink.createWriter(WriterContext.of(OptionalLong.empty()));
            write(second, 0, 350);
            end(second);
            checkOnce(receiver, 0, 350);
        }
    }

    /** The first record for the second receiver comes after the checkpoint. */
    @Test
    void restore__countsOnceInAStreamThatBeganAfterTheCheckpoint() throws Exception {
        try (TestReceiver low = TestReceiver.bind();
                TestReceiver high = TestReceiver.bind()) {
            AtpSink<Long> sink = builder(low, high).build();
            var first = sink.createWriter(WriterContext.of(OptionalLong.empty()));
            write(first, 0, 50);
            List<StreamState> states = checkpoint(first, 5);
            assertEquals(2, states.size());
            write(first, 50, 350);
            high.await(all -> all.records() == 200);
            first.close();
            var second = restore(sink, 5, states);
            write(second, 50, 450);
            end(second);
            checkOnce(low, 0, 100);
            checkOnce(high, 100, 450);
        }
    }

    /** Two attempts from a checkpoint without the stream: a writer that was added made it. */
    @Test
    void restore__countsOnceInAStreamThatTheCheckpointLacks() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink = builder(receiver).build();
            var first = restore(sink, 5, List.of());
            write(first, 0, 250);
            receiver.await(all -> all.records() == 200);
            first.close();
            var second = restore(sink, 5, List.of());
            write(second, 0, 350);
            end(second);
            checkOnce(receiver, 0, 350);
        }
    }

    /** One writer gets the streams of two, whose records are all confirmed. */
    @Test
    void restore__endsAStreamThatItDoesNotNeed() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink = builder(receiver).build();
            List<StreamState> states = new ArrayList<>();
            for (int subtask = 0; subtask < 2; subtask++) {
                var context = WriterContext.of(WriterContext.JOB, subtask, 2, OptionalLong.empty());
                var writer = sink.createWriter(context);
                write(writer, 0, WINDOW_MS);
                writer.writeWatermark(new Watermark(WINDOW_MS));
                while (writer.snapshotState(5).stream().anyMatch(StreamState::hasRecords)) {
                    Thread.sleep(1);
                }
                states.addAll(checkpoint(writer, 5));
                writer.close();
            }
            assertEquals(0, receiver.ended());
            var writer = restore(sink, 5, states);
            // The first watermark is behind windows that were confirmed.
            writer.writeWatermark(new Watermark(WINDOW_MS / 2));
            assertEquals(2, writer.snapshotState(6).size());
            writer.writeWatermark(new Watermark(3 * WINDOW_MS));
            receiver.await(all -> all.ended() == 1);
            while (writer.snapshotState(7).size() > 1) {
                Thread.sleep(1);
            }
            end(writer);
            receiver.await(all -> all.ended() == 2);
            assertEquals(2 * WINDOW_MS, receiver.records());
        }
    }

    /** All is confirmed, and the restored writer gets nothing but the end of its input. */
    @Test
    void restore__endsAStreamWithoutMoreRecords() throws Exception {
        for (boolean hasWatermark : new boolean[] {false, true}) {
            try (TestReceiver receiver = TestReceiver.bind()) {
                AtpSink<Long> sink = builder(receiver).build();
                var first = sink.createWriter(WriterContext.of(OptionalLong.empty()));
                write(first, 0, WINDOW_MS);
                first.writeWatermark(new Watermark(WINDOW_MS));
                while (first.snapshotState(5).stream().anyMatch(StreamState::hasRecords)) {
                    Thread.sleep(1);
                }
                List<StreamState> states = checkpoint(first, 5);
                first.close();
                var second = restore(sink, 5, states);
                if (hasWatermark) {
                    second.writeWatermark(new Watermark(WINDOW_MS / 2));
                }
                end(second);
                receiver.await(all -> all.ended() == 1);
                checkOnce(receiver, 0, WINDOW_MS);
            }
        }
    }

    @Test
    void writeWatermark__beginsNoStreamWithoutARecord() throws Exception {
        try (TestReceiver low = TestReceiver.bind();
                TestReceiver high = TestReceiver.bind()) {
            AtpSink<Long> sink = builder(low, high).build();
            var first = sink.createWriter(WriterContext.of(OptionalLong.empty()));
            write(first, 0, 50);
            List<StreamState> states = checkpoint(first, 5);
            first.close();
            var second = restore(sink, 5, states);
            write(second, 50, 100);
            second.writeWatermark(new Watermark(250));
            end(second);
            checkOnce(low, 0, 100);
            assertEquals(List.of(), high.windows());
        }
    }

    /** A stream that begins late knows the watermark. */
    @Test
    void write__knowsThatTheFirstRecordOfAStreamIsLate() throws Exception {
        try (TestReceiver low = TestReceiver.bind();
                TestReceiver high = TestReceiver.bind()) {
            AtpSink<Long> sink = builder(low, high).build();
            var writer = sink.createWriter(WriterContext.of(OptionalLong.empty()));
            write(writer, 0, 50);
            writer.writeWatermark(new Watermark(350));
            write(writer, 150, 151);
            end(writer);
            assertEquals(1, high.windows().stream().mapToLong(Window::late).sum());
        }
    }
}
