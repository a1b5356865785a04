package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Batches that the job takes in part, and what is left of them. */
class BatchesTest {
    /** Positions tell which messages the job has: the others can be sent in another window. */
    @Test
    void aBatchThatFailsTellsWhatTheJobHas() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().messages(50).windows(true).connect(receiver.address())) {
            ByteBuffer packed = numbered(60);
            assertThrows(IllegalStateException.class, () -> job.sendMany(0, packed, 4));
            assertEquals(50 * 4, packed.position());
            job.endWindow();

            ByteBuffer more = numbered(60);
            int[] lengths = Collections.nCopies(60, 4).stream().mapToInt(Integer::intValue).toArray();
            assertThrows(IllegalStateException.class, () -> job.sendMany(0, more, lengths));
            assertEquals(50 * 4, more.position());
            job.endWindow();

            List<ByteBuffer> list = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                list.add(ByteBuffer.allocate(4).putInt(0, i));
            }
            assertThrows(IllegalStateException.class, () -> job.sendMany(0, list));
            assertEquals(50, list.stream().filter(message -> !message.hasRemaining()).count());
            assertTrue(list.get(50).hasRemaining());
            job.cancel();
        }
    }

    /** An interrupt in the middle loses no message and sends none twice. */
    @Test
    void anInterruptedBatchGoesOn() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().bufferBytes(4_000).connect(receiver.address())) {
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            ByteBuffer packed = numbered(20_000);
            var sending = Pairs.start(() -> {
                while (packed.hasRemaining()) {
                    try {
                        job.sendMany(0, packed, 4);
                    } catch (InterruptedException e) {
                        assertEquals(0, packed.remaining() % 4);
                    }
                }
                return null;
            });
            for (int i = 0; i < 20; i++) {
                sending.thread().interrupt();
                Thread.sleep(1);
            }
            sending.result();
            job.finish();
            List<Event.Message> messages = Pairs.messages(events.result());
            assertEquals(20_000, messages.size());
            for (int i = 0; i < messages.size(); i++) {
                assertEquals(i, messages.get(i).data().getInt());
            }
        }
    }

    @Test
    void aBufferMayBeThereTwice() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().connect(receiver.address())) {
            ByteBuffer message = ByteBuffer.wrap(new byte[] {1, 2, 3});
            job.sendMany(0, Collections.nCopies(3_000, message));
            assertEquals(0, message.remaining());
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            job.finish();
            List<Event.Message> messages = Pairs.messages(events.result());
            assertEquals(3_000, messages.size());
            messages.forEach(one -> assertEquals(3, one.data().remaining()));
        }
    }

    @Test
    void oneBatchMayServeTwoReceivers() throws Exception {
        Batch batch = Batch.ofBytes(4_096);
        Set<java.net.InetSocketAddress> sources = new HashSet<>();
        try (Receiver one = Pairs.receiver();
                Receiver other = Pairs.receiver();
                Job first = Pairs.options().connect(one.address());
                Job second = Pairs.options().connect(other.address())) {
            first.send(new byte[1]);
            second.send(new byte[1]);
            for (Receiver receiver : List.of(one, other)) {
                assertTrue(receiver.recvBatch(batch, Pairs.HANGS));
                Event event = batch.events().get(0);
                assertEquals(1, event.run());
                sources.add(event.source());
            }
            assertEquals(2, sources.size());
            first.cancel();
            second.cancel();
        }
    }

    /** A JVM has few references for each native call. */
    @Test
    void aJobMayHaveEveryGroup() throws Exception {
        try (Receiver receiver = Pairs.receiver()) {
            Group[] groups = new Group[256];
            for (int id = 0; id < groups.length; id++) {
                groups[id] = new Group(id).name("group " + id);
            }
            try (Job job = Pairs.options().groups(groups).connect(receiver.address())) {
                for (Group group : groups) {
                    job.send(group.id(), ByteBuffer.allocate(1));
                }
                var events = Pairs.start(() -> Pairs.untilFinished(receiver));
                assertEquals(256, job.finish().groups().size());
                assertEquals(256, Pairs.messages(events.result()).size());
            }
        }
    }

    private static ByteBuffer numbered(int count) {
        ByteBuffer numbers = ByteBuffer.allocateDirect(4 * count);
        for (int i = 0; i < count; i++) {
            numbers.putInt(i);
        }
        return numbers.flip();
    }
}
