package org.netapprox.atp.flink.source;

import org.apache.flink.annotation.Internal;
import org.apache.flink.api.connector.source.SourceEvent;

/**
 * The enumerator tells a reader that there is no address for it: its output is idle, so that it
 * holds back no watermark.
 *
 * @serial exclude
 */
@Internal
public record NoSplits() implements SourceEvent {
    private static final long serialVersionUID = 1;
}
