package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.netapprox.atp.Window;
import org.netapprox.atp.WindowEvent;
import org.netapprox.atp.WindowReceiver;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.WindowStream;

class AdmissionTest {
    private static final SourceOptions OPTIONS =
            new SourceOptions(List.of("127.0.0.1:1"), List.of(), 1, 2, 0, 0, 1 << 20, false, "", null);

    private static WindowStream stream(String topic, long partition) {
        return new WindowStream("", "", topic, "", partition);
    }

    private static Optional<String> refusal(StreamWatermarks known, WindowStream stream) {
        return Admission.refusal(stream, known, OPTIONS);
    }

    @Test
    void refusal__isOfTheFirstStreamBeyondTheLimit() {
        StreamWatermarks known = new StreamWatermarks(1, 0, List.of(), 0);
        for (int partition = 0; partition < 2; partition++) {
            assertEquals(Optional.empty(), refusal(known, stream("readings", partition)));
            known.onSeen(stream("readings", partition), 0);
        }
        String sentence = refusal(known, stream("readings", 2)).orElseThrow();
        assertTrue(sentence.startsWith("2 streams are known"), sentence);
        assertTrue(sentence.contains("raise streamsMax"), sentence);
        assertEquals(Optional.empty(), refusal(known, stream("readings", 1)));
    }

    /** A sender may repeat the windows of a stream that has ended. */
    @Test
    void refusal__makesNoRoomForAStreamThatHasEnded() {
        StreamWatermarks known = new StreamWatermarks(1, 0, List.of(), 0);
        known.onEnded(stream("readings", 0), 0);
        known.onEnded(stream("readings", 1), 0);
        StreamWatermarks restored = new StreamWatermarks(1, 0, known.marks(), 0);
        assertTrue(refusal(restored, stream("readings", 2)).isPresent());
        assertEquals(Optional.empty(), refusal(restored, stream("readings", 0)));
    }

    @Test
    @Timeout(value = 2, unit = TimeUnit.MINUTES)
    void refusal__isOfOffsetsThatJavaLacks() throws Exception {
        String address = SourceCluster.address();
        StreamWatermarks known = new StreamWatermarks(1, 0, List.of(), 0);
        try (WindowReceiver receiver = OPTIONS.bind(ListenSplit.begin(address));
                Sending sending = Sending.to(address, Sending.byNumber(0).records(1))) {
            // The library has no sign: these are the greatest offsets but one.
            for (long offset : new long[] {Long.MAX_VALUE - 2, -3}) {
                sending.sender.send(
                        new WindowRecord(
                                offset, OptionalLong.empty(), null, new byte[1], List.of()),
                        null);
                Window window = window(receiver);
                Optional<String> refusal = Admission.refusal(window, known, OPTIONS);
                assertEquals(offset < 0, refusal.isPresent());
                refusal.ifPresent(
                        sentence -> assertTrue(sentence.contains("2^63 or more"), sentence));
                window.confirm();
            }
        }
    }

    private static Window window(WindowReceiver receiver) throws Exception {
        while (true) {
            if (receiver.receive() instanceof WindowEvent.Ended ended) {
                return ended.window();
            }
        }
    }

    @Test
    void refusal__isOfANameThatIsTooLong() {
        StreamWatermarks known = new StreamWatermarks(1, 0, List.of(), 0);
        String longest = "ä".repeat(Admission.NAME_BYTES_MAX / 2);
        String longer = longest + "b";
        assertEquals(Optional.empty(), refusal(known, stream(longest, 0)));
        List<WindowStream> refused =
                List.of(
                        new WindowStream(longer, "", "", "", 0),
                        new WindowStream("", longer, "", "", 0),
                        new WindowStream("", "", longer, "", 0),
                        new WindowStream("", "", "", longer, 0));
        for (WindowStream stream : refused) {
            String sentence = refusal(known, stream).orElseThrow();
            assertTrue(sentence.contains("has 1025 bytes"), sentence);
            assertTrue(Admission.shown(stream).length() < 100);
        }
    }
}
