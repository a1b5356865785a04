package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.WindowStream;

class SplitStateTest {
    private static final WindowStream STREAM = new WindowStream("", "", "readings", "", 0);

    private static final class Log implements WatermarkOutput {
        private final List<String> lines = new ArrayList<>();

        @Override
        public void emitWatermark(Watermark watermark) {
            lines.add("watermark " + watermark.getTimestamp());
        }

        @Override
        public void markIdle() {
            lines.add("idle");
        }

        @Override
        public void markActive() {
            lines.add("active");
        }
    }

    private static SplitState state(List<StreamMark> streams) {
        SourceOptions options =
                new SourceOptions(
                        List.of("127.0.0.1:1"), List.of(), 1, 9, 100, 0, 1, false, "", null);
        return new SplitState(options, new ListenSplit("127.0.0.1:1", new byte[0], streams), 0);
    }

    @Test
    void advance__emitsEachChangeOnce() {
        SplitState state = state(List.of());
        Log log = new Log();
        state.advance(log);
        state.watermarks.onWindow(STREAM, OptionalLong.of(1_000), true, 1);
        state.advance(log);
        state.advance(log);
        state.watermarks.onQuiet(101);
        state.advance(log);
        state.advance(log);
        state.watermarks.onSeen(STREAM, 102);
        state.advance(log);
        state.watermarks.onWindow(STREAM, OptionalLong.of(900), true, 103);
        state.advance(log);
        state.watermarks.onWindow(STREAM, OptionalLong.of(2_000), true, 104);
        state.advance(log);
        assertEquals(
                List.of("watermark 999", "idle", "active", "watermark 1999"), log.lines);
    }

    @Test
    void advance__afterARestoreEmitsItsWatermark() {
        SplitState state = state(List.of(new StreamMark(STREAM, 999, false)));
        Log log = new Log();
        state.advance(log);
        assertEquals(List.of("watermark 999"), log.lines);
        assertEquals(List.of(new StreamMark(STREAM, 999, false)), state.toSplit().streams());
    }

    @Test
    void toSplit__hasTheOffsetsOfTheLastWindow() {
        SplitState state = state(List.of());
        state.setCounted(new byte[] {1, 2});
        assertEquals(2, state.toSplit().counted().length);
        assertEquals("127.0.0.1:1", state.toSplit().splitId());
    }
}
