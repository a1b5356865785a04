package org.netapprox.atp;

import java.net.InetSocketAddress;
import java.util.Optional;

/**
 * An event of a receiver of windows. Later versions may have more kinds: skip those that a program
 * doesn't know.
 */
public interface WindowEvent {
    /**
     * A window has ended. Confirm it once its results are safe.
     *
     * @param window the window
     */
    record Ended(Window window) implements WindowEvent {}

    /**
     * A window all of whose records were counted before. It is confirmed.
     *
     * @param id the window
     */
    record Repeated(WindowId id) implements WindowEvent {}

    /**
     * A window that will be sent again: its sender failed, or was replaced.
     *
     * @param id the window
     */
    record Unfinished(WindowId id) implements WindowEvent {}

    /**
     * The sender of a stream has ended its job. All windows that it had are confirmed.
     *
     * @param stream the stream
     */
    record StreamEnded(WindowStream stream) implements WindowEvent {}

    /**
     * A sender was refused: its bytes are no window.
     *
     * @param source the sender's address
     * @param reason the reason
     */
    record Malformed(InetSocketAddress source, String reason) implements WindowEvent {}

    /**
     * The open windows need more memory than they may have. This sender has to send its window
     * again.
     *
     * @param source the sender's address
     * @param id the window, if it is known
     * @param memoryBytesMax the limit: {@link WindowReceiverBuilder#memoryBytesMax}
     */
    record NoMemory(InetSocketAddress source, Optional<WindowId> id, long memoryBytesMax)
            implements WindowEvent {}
}
