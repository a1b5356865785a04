package org.netapprox.atp.flink;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.annotation.PublicEvolving;
import org.netapprox.atp.OffsetRange;
import org.netapprox.atp.Window;
import org.netapprox.atp.WindowGroup;
import org.netapprox.atp.WindowStream;

/**
 * A window that was emitted: what it had, what arrived, and an answer about all its records if the
 * source was asked for one. A POJO of Flink.
 */
@PublicEvolving
public class WindowSummary {
    /** The id of the cluster of the stream; empty without one. */
    public String cluster = "";

    /** The group of consumers that the sender belongs to; empty without one. */
    public String consumerGroup = "";

    /** The topic. */
    public String topic = "";

    /** The topic's id, which another topic of that name doesn't have; empty without one. */
    public String topicId = "";

    /** The partition of the topic. */
    public long partition;

    /** The window's number; by event time it is the time divided by the windows' length. */
    public long number;

    /** The part of the window, from 0 on. */
    public long part;

    /** Whether no part follows. */
    public boolean isLastPart;

    /** The beginning in event time, milliseconds since 1970; null for windows by number. */
    public Long startMs;

    /** The end in event time, which the window excludes; null for windows by number. */
    public Long endMs;

    /** N, the number of the window's records. */
    public long records;

    /** Records that arrived and weren't counted before: those that the source emits. */
    public long received;

    /** Records that didn't arrive and weren't counted before. */
    public long lost;

    /** Records that are longer than their sender's limit, and weren't counted before. */
    public long refused;

    /** Records that were counted before, and aren't emitted again. */
    public long repeated;

    /** Records whose own window had ended before they came. */
    public long late;

    /**
     * Offsets before the window that no window has brought. After a restore, they are those of
     * windows that an earlier attempt had confirmed after the checkpoint. Of a stream that the
     * checkpoint didn't know, none are counted.
     */
    public long skipped;

    /** The groups, in order of their ids. */
    public List<Group> groups = new ArrayList<>();

    /** The answers about all records of the window; empty unless the source was asked. */
    public List<Answer> answers = new ArrayList<>();

    /** Reasons to doubt the answers, or why there are none. */
    public List<String> warnings = new ArrayList<>();

    /** The records of a window that have a minimal sampling rate of their own. */
    public static class Group {
        /** The name; records without a rate are in {@code exact}. */
        public String name = "";

        /** The minimal sampling rate, 0 to 1: this share of the records arrived, or more. */
        public double msr;

        /** N, the number of the group's records. */
        public long records;

        /** Records that arrived. */
        public long arrived;

        /** A group without records. */
        public Group() {}

        @Override
        public String toString() {
            return name + ": " + arrived + " of " + records + " records";
        }
    }

    /** An answer about all records, with its interval. */
    public static class Answer {
        /** The function and its key, such as {@code avg(delay) for UA}. */
        public String label = "";

        /** The answer, in the unit of the column. */
        public double value;

        /** The lower end of the interval; negative infinity if the sample can't tell it. */
        public double low;

        /** The upper end of the interval. */
        public double high;

        /** An answer of 0. */
        public Answer() {}

        @Override
        public String toString() {
            return label + ": " + value + " (" + low + " to " + high + ")";
        }
    }

    /** A summary without records. */
    public WindowSummary() {}

    /**
     * The summary of a window, without answers.
     *
     * @param window the window
     * @return the summary
     */
    public static WindowSummary of(Window window) {
        WindowSummary summary = new WindowSummary();
        WindowStream stream = window.stream();
        summary.cluster = stream.cluster();
        summary.consumerGroup = stream.consumerGroup();
        summary.topic = stream.topic();
        summary.topicId = stream.topicId();
        summary.partition = stream.partition();
        summary.number = window.id().number();
        summary.part = window.id().part();
        summary.isLastPart = window.isLastPart();
        if (window.startMs().isPresent()) {
            summary.startMs = window.startMs().getAsLong();
            summary.endMs = window.endMs().getAsLong();
        }
        summary.records = window.records();
        summary.received = window.received();
        summary.lost = size(window.lost());
        summary.refused = size(window.refused());
        summary.repeated = window.repeated();
        summary.late = window.late();
        summary.skipped = window.skipped();
        window.samples().forEach(sample -> summary.groups.add(group(sample.group())));
        return summary;
    }

    private static long size(List<OffsetRange> ranges) {
        return ranges.stream().mapToLong(OffsetRange::size).sum();
    }

    private static Group group(WindowGroup of) {
        Group group = new Group();
        group.name = of.name();
        group.msr = of.msr();
        group.records = of.records();
        group.arrived = of.arrived();
        return group;
    }

    /** The window in the words of a log: {@code readings [3], window 17: 90 of 100 records}. */
    @Override
    public String toString() {
        String place = topic + " [" + partition + "], window " + number;
        String of = part > 0 ? ", part " + (part + 1) : "";
        return place + of + ": " + received + " of " + records + " records";
    }
}
