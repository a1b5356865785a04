package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.flink.util.FlinkRuntimeException;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.WindowStream;

class ListenEnumeratorTest {
    private static final List<StreamMark> STREAMS =
            List.of(new StreamMark(new WindowStream("", "", "t", "", 0), 7, false));

    private static SourceOptions options(boolean isBounded, String... addresses) {
        return new SourceOptions(
                List.of(addresses), List.of(), 1, 9, 0, 0, 1, isBounded, "", null);
    }

    private static ListenEnumerator enumerator(EnumeratorContext context, String... addresses) {
        return new ListenEnumerator(context, options(false, addresses), null);
    }

    private static ListenSplit used(String address) {
        return new ListenSplit(address, new byte[] {1}, STREAMS);
    }

    @Test
    void assign__waitsForAllReaders() {
        EnumeratorContext context = new EnumeratorContext(2);
        ListenEnumerator enumerator = enumerator(context, "0.0.0.0:1");
        context.register(enumerator, 1, List.of(), "10.0.0.1");
        assertEquals(List.of(), context.addresses());
        context.register(enumerator, 0, List.of(), "10.0.0.2");
        assertEquals(List.of("0.0.0.0:1"), context.addresses());
    }

    @Test
    void assign__choosesAReaderThatHasTheAddress() {
        EnumeratorContext context = new EnumeratorContext(3);
        ListenEnumerator enumerator =
                enumerator(context, "10.0.0.2:1", "10.0.0.1:1", "0.0.0.0:2", "10.0.0.2:2");
        context.register(enumerator, 0, List.of(), "10.0.0.1");
        context.register(enumerator, 1, List.of(), "10.0.0.2");
        context.register(enumerator, 2, List.of(), "10.0.0.3");
        assertEquals(List.of("10.0.0.1:1"), context.addresses(0));
        assertEquals(List.of("10.0.0.2:1", "10.0.0.2:2"), context.addresses(1));
        assertEquals(List.of("0.0.0.0:2"), context.addresses(2));
    }

    @Test
    void assign__tellsReadersWithoutAddresses() {
        EnumeratorContext context = new EnumeratorContext(2);
        ListenEnumerator enumerator = enumerator(context, "10.0.0.2:1");
        context.register(enumerator, 0, List.of(), "10.0.0.1");
        context.register(enumerator, 1, List.of(), "10.0.0.2");
        assertEquals(Set.of(0), context.withoutSplits);
        assertEquals(Set.of(), context.withoutMore);
    }

    @Test
    void assign__toABoundedSourceIsTheLast() {
        EnumeratorContext context = new EnumeratorContext(2);
        ListenEnumerator enumerator =
                new ListenEnumerator(context, options(true, "10.0.0.2:1"), null);
        context.register(enumerator, 0, List.of(), "10.0.0.1");
        context.register(enumerator, 1, List.of(), "10.0.0.2");
        assertEquals(Set.of(0, 1), context.withoutMore);
        assertEquals(Set.of(), context.withoutSplits);
        // The other reader may have finished: the address comes back to this one.
        context.fail(enumerator, 1, List.of(ListenSplit.begin("10.0.0.2:1")));
        context.register(enumerator, 1, List.of(), "10.0.0.2");
        assertEquals(List.of("10.0.0.2:1"), context.addresses(1));
        assertEquals(Set.of(0, 1), context.withoutMore);
    }

    @Test
    void assign__ofAnotherHostsAddressFails() {
        EnumeratorContext context = new EnumeratorContext(2);
        ListenEnumerator enumerator = enumerator(context, "10.0.0.9:4747");
        context.register(enumerator, 0, List.of(), "10.0.0.2");
        var error =
                assertThrows(
                        FlinkRuntimeException.class,
                        () -> context.register(enumerator, 1, List.of(), "10.0.0.1"));
        assertEquals(
                "no task manager with a reader of the source has the address 10.0.0.9:4747: listen"
                        + " at one of theirs, which are 10.0.0.1, 10.0.0.2, or at 0.0.0.0:4747",
                error.getMessage());
    }

    /** Any number of addresses and readers: each address has one reader, and none has many more. */
    @Test
    void assign__spreadsEvenlyAlsoAfterARestore() {
        for (int seed = 0; seed < 300; seed++) {
            Random random = new Random(seed);
            String[] addresses =
                    IntStream.rangeClosed(1, 1 + random.nextInt(8))
                            .mapToObj(port -> "0.0.0.0:" + port)
                            .toArray(String[]::new);
            EnumeratorContext context = new EnumeratorContext(1 + random.nextInt(5));
            ListenEnumerator enumerator = enumerator(context, addresses);
            registerAll(context, enumerator, random, List.of());
            for (int restore = 0; restore < 3; restore++) {
                check(context, addresses, seed);
                List<ListenSplit> splits =
                        new ArrayList<>(
                                context.given.values().stream().flatMap(List::stream).toList());
                Collections.shuffle(splits, random);
                PendingSplits state = enumerator.snapshotState(restore);
                context = new EnumeratorContext(1 + random.nextInt(5));
                enumerator = new ListenEnumerator(context, options(false, addresses), state);
                registerAll(context, enumerator, random, splits);
            }
            check(context, addresses, seed);
        }
    }

    /** Registers readers in any order, with the restored splits in any of them. */
    private static void registerAll(
            EnumeratorContext context,
            ListenEnumerator enumerator,
            Random random,
            List<ListenSplit> splits) {
        int readers = context.currentParallelism();
        List<List<ListenSplit>> restored = new ArrayList<>();
        IntStream.range(0, readers).forEach(any -> restored.add(new ArrayList<>()));
        splits.forEach(split -> restored.get(random.nextInt(readers)).add(split));
        List<Integer> order = new ArrayList<>(IntStream.range(0, readers).boxed().toList());
        Collections.shuffle(order, random);
        for (int subtask : order) {
            context.register(enumerator, subtask, restored.get(subtask), "10.0.0.1");
        }
    }

    private static void check(EnumeratorContext context, String[] addresses, int seed) {
        assertEquals(List.of(addresses), context.addresses(), "seed " + seed);
        var sizes = context.given.values().stream().mapToInt(List::size).summaryStatistics();
        assertTrue(sizes.getMax() - sizes.getMin() <= 1, "seed " + seed);
    }

    @Test
    void addReader__keepsTheStateOfTheCheckpoint() {
        EnumeratorContext context = new EnumeratorContext(1);
        PendingSplits state =
                new PendingSplits(List.of(used("0.0.0.0:2")), List.of("0.0.0.0:1", "0.0.0.0:3"));
        ListenEnumerator enumerator =
                new ListenEnumerator(
                        context,
                        options(true, "0.0.0.0:1", "0.0.0.0:2", "0.0.0.0:3", "0.0.0.0:4"),
                        state);
        context.register(enumerator, 0, List.of(used("0.0.0.0:1")), "10.0.0.1");
        // Address 3 was done, and address 4 is new.
        assertEquals(List.of("0.0.0.0:1", "0.0.0.0:2", "0.0.0.0:4"), context.addresses());
        Set<String> withState = new HashSet<>();
        for (ListenSplit split : context.given.get(0)) {
            if (split.streams().equals(STREAMS)) {
                withState.add(split.address());
            }
        }
        assertEquals(Set.of("0.0.0.0:1", "0.0.0.0:2"), withState);
    }

    /** A failed reader reports a split that it was also given since the checkpoint. */
    @Test
    void addReader__ofAFailedReaderGivesEachSplitOnce() {
        EnumeratorContext context = new EnumeratorContext(2);
        ListenEnumerator enumerator =
                new ListenEnumerator(
                        context,
                        options(false, "0.0.0.0:1", "0.0.0.0:2"),
                        new PendingSplits(List.of(), List.of("0.0.0.0:1", "0.0.0.0:2")));
        List<ListenSplit> both = List.of(used("0.0.0.0:1"), used("0.0.0.0:2"));
        context.register(enumerator, 0, both, "10.0.0.1");
        context.register(enumerator, 1, List.of(), "10.0.0.1");
        ListenSplit own = context.given.get(0).get(0);
        // It reports both again, and one of them is the other reader's now.
        context.fail(enumerator, 0, List.of(own));
        context.register(enumerator, 0, both, "10.0.0.1");
        assertEquals(List.of("0.0.0.0:1", "0.0.0.0:2"), context.addresses());
        assertEquals(List.of(own.address()), context.addresses(0));
    }

    @Test
    void assign__movesTheStateToANewAddress() {
        EnumeratorContext context = new EnumeratorContext(1);
        ListenEnumerator enumerator =
                new ListenEnumerator(
                        context,
                        options(false, "0.0.0.0:1", "0.0.0.0:3"),
                        new PendingSplits(List.of(), List.of("0.0.0.0:1", "0.0.0.0:2")));
        List<ListenSplit> both = List.of(used("0.0.0.0:1"), used("0.0.0.0:2"));
        context.register(enumerator, 0, both, "10.0.0.1");
        assertEquals(List.of("0.0.0.0:1", "0.0.0.0:3"), context.addresses());
        assertEquals(STREAMS, context.given.get(0).get(1).streams());
    }

    @Test
    void assign__listensAgainAtAnAddressThatWasReplaced() {
        PendingSplits state = null;
        List<ListenSplit> splits = List.of();
        for (String ports : List.of("1 2", "1 3", "1 2 3")) {
            String[] addresses =
                    Stream.of(ports.split(" "))
                            .map(port -> "0.0.0.0:" + port)
                            .toArray(String[]::new);
            EnumeratorContext context = new EnumeratorContext(1);
            ListenEnumerator enumerator =
                    new ListenEnumerator(context, options(false, addresses), state);
            // Also a checkpoint before the readers have come knows the addresses.
            state = enumerator.snapshotState(0);
            enumerator = new ListenEnumerator(context, options(false, addresses), state);
            context.register(enumerator, 0, splits, "10.0.0.1");
            assertEquals(List.of(addresses), context.addresses());
            splits = context.given.get(0).stream().map(split -> used(split.address())).toList();
            state = enumerator.snapshotState(1);
        }
    }

    @Test
    void assign__movesAStateThatWaitsInTheCheckpoint() {
        EnumeratorContext context = new EnumeratorContext(1);
        ListenEnumerator enumerator =
                new ListenEnumerator(
                        context,
                        options(false, "0.0.0.0:1", "0.0.0.0:3"),
                        new PendingSplits(
                                List.of(used("0.0.0.0:2")), List.of("0.0.0.0:1", "0.0.0.0:2")));
        context.register(enumerator, 0, List.of(used("0.0.0.0:1")), "10.0.0.1");
        assertEquals(List.of("0.0.0.0:1", "0.0.0.0:3"), context.addresses());
        context.given.get(0).forEach(split -> assertEquals(STREAMS, split.streams()));
    }

    @Test
    void assign__withoutAnAddressForAStateFails() {
        EnumeratorContext context = new EnumeratorContext(1);
        ListenEnumerator enumerator =
                new ListenEnumerator(
                        context,
                        options(false, "0.0.0.0:1"),
                        new PendingSplits(List.of(), List.of("0.0.0.0:1", "0.0.0.0:2")));
        List<ListenSplit> both = List.of(used("0.0.0.0:1"), used("0.0.0.0:2"));
        var error =
                assertThrows(
                        FlinkRuntimeException.class,
                        () -> context.register(enumerator, 0, both, "10.0.0.1"));
        String sentence = error.getMessage();
        assertTrue(sentence.contains("counted offsets of 0.0.0.0:2"), sentence);
    }
}
