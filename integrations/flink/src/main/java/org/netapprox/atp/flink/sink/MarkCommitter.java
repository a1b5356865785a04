package org.netapprox.atp.flink.sink;

import java.util.Collection;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.connector.sink2.Committer;

/** Tells the writers that hold records of complete checkpoints. It commits nothing elsewhere. */
@Internal
public final class MarkCommitter implements Committer<CheckpointMark> {
    /** For {@link org.netapprox.atp.flink.AtpSink}. */
    public MarkCommitter() {}

    @Override
    public void commit(Collection<CommitRequest<CheckpointMark>> requests) {
        requests.forEach(request -> HoldingWriter.release(request.getCommittable()));
    }

    @Override
    public void close() {}
}
