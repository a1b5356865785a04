package org.netapprox.atp.flink.source;

import java.util.OptionalLong;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkOutput;

/** The state of a split while a reader has it. Only the task's thread uses it. */
final class SplitState {
    final StreamWatermarks watermarks;
    private final String address;
    private byte[] counted;
    private long emittedMs = StreamMark.NONE;
    private boolean isMarkedIdle;

    SplitState(SourceOptions options, ListenSplit split, long nowNanos) {
        address = split.address();
        counted = split.counted();
        watermarks =
                new StreamWatermarks(
                        options.streams(), options.idleNanos(), split.streams(), nowNanos);
    }

    String address() {
        return address;
    }

    /** Takes the offsets that the receiver has counted now. */
    void setCounted(byte[] offsets) {
        counted = offsets;
    }

    /** Emits what has changed: the watermark, and whether the streams hold it back. */
    void advance(WatermarkOutput output) {
        OptionalLong watermarkMs = watermarks.watermarkMs();
        if (watermarkMs.isPresent() && watermarkMs.getAsLong() > emittedMs) {
            emittedMs = watermarkMs.getAsLong();
            // Flink takes a watermark for activity.
            isMarkedIdle = false;
            output.emitWatermark(new Watermark(emittedMs));
        }
        if (watermarks.isIdle() != isMarkedIdle) {
            isMarkedIdle = !isMarkedIdle;
            if (isMarkedIdle) {
                output.markIdle();
            } else {
                output.markActive();
            }
        }
    }

    ListenSplit toSplit() {
        return new ListenSplit(address, counted, watermarks.marks());
    }
}
