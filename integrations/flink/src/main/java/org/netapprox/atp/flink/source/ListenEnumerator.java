package org.netapprox.atp.flink.source;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.util.FlinkRuntimeException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives each address to one reader whose host has it.
 *
 * <p>After a restore, readers report their splits instead of reading them, since they may run on
 * other hosts now. Nothing is assigned before all readers have told their addresses.
 */
@Internal
public final class ListenEnumerator implements SplitEnumerator<ListenSplit, PendingSplits> {
    private static final Logger LOG = LoggerFactory.getLogger(ListenEnumerator.class);

    private final SplitEnumeratorContext<ListenSplit> context;
    private final List<String> addresses;
    private final boolean isBounded;

    /** Splits that no reader has, by address. */
    private final Map<String, ListenSplit> pending = new LinkedHashMap<>();

    /** Addresses of the source that a reader has, or had: without a split, they are done. */
    private final Set<String> begun = new LinkedHashSet<>();

    /** The subtask that has an address, or has finished it. */
    private final Map<String, Integer> owners = new HashMap<>();

    private final Map<Integer, HostAddresses> hosts = new TreeMap<>();

    /** Subtasks that know that no more splits come: in bounded sources they may have finished. */
    private final Set<Integer> told = new HashSet<>();

    /**
     * An enumerator.
     *
     * @param context its context
     * @param options the source's options
     * @param state the state of a checkpoint; null for none
     */
    public ListenEnumerator(
            SplitEnumeratorContext<ListenSplit> context,
            SourceOptions options,
            PendingSplits state) {
        this.context = context;
        addresses = options.addresses();
        isBounded = options.isBounded();
        if (state != null) {
            state.splits().forEach(split -> pending.put(split.splitId(), split));
            begun.addAll(state.begun());
            // One that is left out now begins again if it comes back. Its state moves to another,
            // or the job fails.
            begun.retainAll(addresses);
        }
    }

    @Override
    public void start() {}

    @Override
    public void addReader(int subtask) {
        List<ListenSplit> reported =
                context.registeredReaders().get(subtask).getReportedSplitsOnRegistration();
        for (ListenSplit split : reported) {
            // Since the checkpoint it may have moved to a reader that didn't fail.
            if (!owners.containsKey(split.splitId())) {
                pending.putIfAbsent(split.splitId(), split);
            }
        }
    }

    @Override
    public void handleSourceEvent(int subtask, SourceEvent event) {
        if (event instanceof HostAddresses host) {
            hosts.put(subtask, host);
            assign();
        }
    }

    /** The subtask has failed: it forgets what it was given since the checkpoint. */
    @Override
    public void addSplitsBack(List<ListenSplit> splits, int subtask) {
        hosts.remove(subtask);
        told.remove(subtask);
        owners.values().removeIf(owner -> owner == subtask);
        // The reader may report the same split, in the same state.
        splits.forEach(split -> pending.putIfAbsent(split.splitId(), split));
    }

    @Override
    public void handleSplitRequest(int subtask, String host) {
        // Readers don't ask.
    }

    @Override
    public PendingSplits snapshotState(long checkpoint) {
        return new PendingSplits(List.copyOf(pending.values()), List.copyOf(begun));
    }

    @Override
    public void close() {}

    private void assign() {
        int readers = context.currentParallelism();
        if (context.registeredReaders().size() < readers || hosts.size() < readers) {
            return;
        }
        addMissing();
        Map<Integer, List<ListenSplit>> assignment = new HashMap<>();
        List<ListenSplit> splits = new ArrayList<>(pending.values());
        // Addresses that only some hosts have come first: others fill the gaps.
        Comparator<ListenSplit> isOfEveryHost =
                Comparator.comparing(split -> address(split).isOfEveryHost());
        splits.sort(isOfEveryHost);
        for (ListenSplit split : splits) {
            int subtask = choose(address(split));
            owners.put(split.splitId(), subtask);
            assignment.computeIfAbsent(subtask, any -> new ArrayList<>()).add(split);
        }
        pending.clear();
        begun.addAll(owners.keySet());
        if (!assignment.isEmpty()) {
            LOG.info("Addresses of the subtasks: {}", assignment);
            context.assignSplits(new SplitsAssignment<>(assignment));
        }
        for (int subtask : hosts.keySet()) {
            tell(subtask);
        }
    }

    /** Adds the addresses of which nothing is known, and moves the state of those that are gone. */
    private void addMissing() {
        List<String> missing = new ArrayList<>(addresses);
        missing.removeAll(pending.keySet());
        missing.removeAll(begun);
        List<ListenSplit> gone = new ArrayList<>(pending.values());
        gone.removeIf(split -> addresses.contains(split.address()));
        if (gone.size() > missing.size()) {
            throw new FlinkRuntimeException(
                    "the checkpoint has counted offsets of " + gone.get(missing.size()).address()
                            + ", at which the source no longer listens, and there is no new"
                            + " address that could go on with them: listen there, too, or start"
                            + " the source without its state");
        }
        for (int i = 0; i < missing.size(); i++) {
            String address = missing.get(i);
            ListenSplit split = ListenSplit.begin(address);
            if (i < gone.size()) {
                LOG.warn("{} goes on with the state of {}", address, gone.get(i).address());
                split = gone.get(i).movedTo(address);
                pending.remove(gone.get(i).splitId());
            }
            pending.put(address, split);
        }
    }

    /** The subtask with the fewest addresses, of those whose host has this one. */
    private int choose(ListenAddress address) {
        return hosts.keySet().stream()
                .filter(subtask -> hosts.get(subtask).has(address))
                .filter(subtask -> !(isBounded && told.contains(subtask)))
                .min(
                        Comparator.<Integer>comparingLong(this::load)
                                .thenComparing(Comparator.naturalOrder()))
                .orElseThrow(() -> noHost(address));
    }

    private long load(int subtask) {
        return owners.values().stream().filter(owner -> owner == subtask).count();
    }

    private FlinkRuntimeException noHost(ListenAddress address) {
        Set<String> ips = new TreeSet<>();
        hosts.values().forEach(host -> ips.addAll(host.ips()));
        return new FlinkRuntimeException(
                "no task manager with a reader of the source has the address " + address
                        + ": listen at one of theirs, which are " + String.join(", ", ips)
                        + ", or at 0.0.0.0:" + address.port());
    }

    private void tell(int subtask) {
        boolean hasNone = !owners.containsValue(subtask);
        if ((isBounded || hasNone) && told.add(subtask)) {
            if (isBounded) {
                context.signalNoMoreSplits(subtask);
            } else {
                context.sendEventToSourceReader(subtask, new NoSplits());
            }
        }
    }

    private static ListenAddress address(ListenSplit split) {
        return ListenAddress.parse(split.address());
    }
}
