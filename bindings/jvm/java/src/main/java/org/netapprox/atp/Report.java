package org.netapprox.atp;

import java.util.List;

/**
 * The outcome of a job, from {@link Job#finish} or {@link Job#cancel}.
 *
 * @param job the job's id
 * @param datapath the datapath at the end: {@code ebpf}, or {@code userspace} without a daemon
 * @param pacing the pacing at the end: {@code fq}, {@code htb} or {@code userspace}
 * @param elapsedSeconds seconds from the first message to the confirmed end
 * @param packetsSent packets with data sent, retransmissions included
 * @param packetsRetransmitted packets with data that were retransmitted
 * @param messagesPacked messages that shared a packet, counted each time that they were sent
 * @param packetsArrived packets with data that reached the receiving library, by its own count
 * @param refusals packets that the receiver answered with "no room": the job tried them again
 * @param bytesSent message bytes in the packets sent, retransmissions included, headers not
 * @param groups one entry per group, of the last window
 * @param windows windows that have ended; 1 for a job without windows
 * @param windowsHurried windows that yielded less to exact traffic than the law {@code yield} says,
 *     because they would have missed their deadlines
 * @param canceled whether {@link Job#cancel}, or the deadline of the last window, ended the job
 *     before its groups had the messages that they need
 * @param requests requests of the receiver that the job has handled, obeyed or not
 * @param endedByReceiver whether the receiver asked for the end: no group needs a message then
 * @param timeline the lanes over time, one sample per lane each 50 ms or, in long jobs, less often
 */
public record Report(
        long job,
        String datapath,
        String pacing,
        double elapsedSeconds,
        long packetsSent,
        long packetsRetransmitted,
        long messagesPacked,
        long packetsArrived,
        long refusals,
        long bytesSent,
        List<GroupReport> groups,
        long windows,
        long windowsHurried,
        boolean canceled,
        long requests,
        boolean endedByReceiver,
        List<LaneSample> timeline) {
    static Report read(Fields f) {
        return new Report(
                f.u32(),
                f.text(),
                f.text(),
                f.f64(),
                f.u64(),
                f.u64(),
                f.u64(),
                f.u64(),
                f.u64(),
                f.u64(),
                f.list(GroupReport::read),
                f.u32(),
                f.u32(),
                f.flag(),
                f.u64(),
                f.flag(),
                f.list(LaneSample::read));
    }
}
