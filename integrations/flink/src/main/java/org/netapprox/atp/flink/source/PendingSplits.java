package org.netapprox.atp.flink.source;

import java.util.List;
import org.apache.flink.annotation.Internal;

/**
 * The state of the enumerator.
 *
 * @param splits the splits that no reader has
 * @param begun the addresses whose splits a reader has, or had: without a split, they are done
 */
@Internal
public record PendingSplits(List<ListenSplit> splits, List<String> begun) {
    /**
     * The state.
     *
     * @param splits the splits that no reader has
     * @param begun the addresses whose splits a reader has, or had
     */
    public PendingSplits {
        splits = List.copyOf(splits);
        begun = List.copyOf(begun);
    }
}
