package org.netapprox.atp;

/**
 * The outcome of one group of a job, at the sender.
 *
 * @param group the group's id, 0 to 255
 * @param messages N, the number of messages
 * @param delivered messages known to be delivered
 * @param needed the messages that must be delivered, ceil(MSR * N)
 * @param lost messages not delivered
 * @param msr the minimal sampling rate that was agreed last, 0 to 1
 * @param lostIds the ids of the messages not delivered, if the option {@code nameLost} asked for
 *     them
 */
public record GroupReport(
        int group,
        long messages,
        long delivered,
        long needed,
        long lost,
        double msr,
        LostIds lostIds) {
    static GroupReport read(Fields f) {
        return new GroupReport(
                f.u8(), f.u32(), f.u32(), f.u32(), f.u32(), f.f64(), readLostIds(f));
    }

    private static LostIds readLostIds(Fields f) {
        String reason = f.text();
        return reason.isEmpty()
                ? new LostIds.Known(f.list(IdRange::read))
                : new LostIds.Unknown(LostIds.Reason.valueOf(reason));
    }
}
