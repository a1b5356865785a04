package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashSet;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.flink.api.common.JobID;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.flink.AtpSink;

class StreamIdTest {
    private static final OptionalLong NONE = OptionalLong.empty();

    private static StreamId id(JobID job, int subtasks, OptionalLong checkpoint) {
        return id(job, subtasks, checkpoint, "numbers", 0, 0);
    }

    private static StreamId id(
            JobID job, int subtasks, OptionalLong checkpoint, String topic, int subtask, int peer) {
        var options =
                AtpSink.<Long>builder(topic, SinkJob::bytes)
                        .peers("10.0.0.2:4747", "10.0.0.3:4747")
                        .records(1)
                        .build()
                        .options();
        String origin = StreamId.origin(WriterContext.of(job, subtask, subtasks, checkpoint));
        return StreamId.create(options, origin, subtask, peer);
    }

    @Test
    void create__isTheSameForAttemptsFromOneCheckpoint() {
        JobID job = WriterContext.JOB;
        assertEquals(id(job, 2, NONE), id(job, 2, NONE));
        assertEquals(id(job, 2, OptionalLong.of(5)), id(job, 2, OptionalLong.of(5)));
    }

    @Test
    void create__differsOtherwise() {
        JobID job = WriterContext.JOB;
        Set<String> ids = new HashSet<>();
        ids.add(id(job, 2, NONE).topicId());
        ids.add(id(job, 2, OptionalLong.of(0)).topicId());
        ids.add(id(job, 2, OptionalLong.of(5)).topicId());
        ids.add(id(job, 3, NONE).topicId());
        ids.add(id(new JobID(1, 3), 2, NONE).topicId());
        ids.add(id(job, 2, NONE, "others", 0, 0).topicId());
        ids.add(id(job, 2, NONE, "numbers", 1, 0).topicId());
        ids.add(id(job, 2, NONE, "numbers", 0, 1).topicId());
        assertEquals(8, ids.size());
    }
}
