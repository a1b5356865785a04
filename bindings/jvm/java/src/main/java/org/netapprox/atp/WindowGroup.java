package org.netapprox.atp;

/**
 * The records of a window that have a minimal sampling rate of their own.
 *
 * @param id the id of the group, a number of the stratum in answers
 * @param name the name; records without a rate are in {@code exact}
 * @param msr the minimal sampling rate, 0 to 1
 * @param records N, the number of records
 * @param sent the number of records that were drawn and sent
 * @param hasLong whether some of those take several packets each: with a rate of 0 they get lost
 *     more often than short ones
 * @param arrived the number that arrived; all that were sent, unless the rate is 0
 */
public record WindowGroup(
        int id,
        String name,
        double msr,
        long records,
        long sent,
        boolean hasLong,
        long arrived) {
    static WindowGroup read(Fields f) {
        return new WindowGroup(
                f.u8(), f.text(), f.f64(), f.u64(), f.u64(), f.flag(), f.u64());
    }

    /**
     * The number of records that each one that arrived stands for.
     *
     * @return the number; NaN if none arrived
     */
    public double weight() {
        return arrived == 0 ? Double.NaN : (double) records / arrived;
    }
}
