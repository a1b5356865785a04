package org.netapprox.atp.flink.source;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.annotation.Internal;
import org.netapprox.atp.Receiver;
import org.netapprox.atp.ReceiverBuilder;
import org.netapprox.atp.WindowReceiver;

/**
 * Options of a source, which were checked.
 *
 * @param addresses the addresses to listen at, one at least
 * @param senders the IP addresses of admitted senders; none: any
 * @param streams the streams to expect at each address, 1 or more
 * @param streamsMax the most streams of each address, {@code streams} or more
 * @param idleNanos a stream without a window for this long is idle; 0: never
 * @param senderNanos the longest time without a window of anybody; 0: no limit
 * @param memoryBytesMax the most bytes of windows that are open or wait, for each address
 * @param isBounded whether an address is done once its streams have ended
 * @param daemon the daemon's control socket; empty for none, null for the default
 * @param answer the answer to give for each window; null for none
 * @serial exclude
 */
@Internal
public record SourceOptions(
        List<String> addresses,
        List<String> senders,
        int streams,
        int streamsMax,
        long idleNanos,
        long senderNanos,
        long memoryBytesMax,
        boolean isBounded,
        String daemon,
        AnswerOptions answer)
        implements Serializable {
    private static final long serialVersionUID = 1;

    /**
     * Starts to receive.
     *
     * @param split the address, and the offsets that were counted
     * @return the receiver
     * @throws IOException as {@code WindowReceiverBuilder.bind}
     */
    public WindowReceiver bind(ListenSplit split) throws IOException {
        ReceiverBuilder receiver = Receiver.builder();
        senders.forEach(receiver::peer);
        if (daemon != null && daemon.isEmpty()) {
            receiver.noDaemon();
        } else if (daemon != null) {
            receiver.controlSocket(Path.of(daemon));
        }
        return WindowReceiver.builder()
                .receiver(receiver)
                .counted(split.counted())
                .memoryBytesMax(memoryBytesMax)
                .bind(split.address());
    }
}
