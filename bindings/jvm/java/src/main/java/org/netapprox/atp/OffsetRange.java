package org.netapprox.atp;

/**
 * Offsets of records.
 *
 * @param start the first offset
 * @param end the offset behind the last
 */
public record OffsetRange(long start, long end) {
    static OffsetRange read(Fields f) {
        return new OffsetRange(f.u64(), f.u64());
    }

    /**
     * The number of offsets.
     *
     * @return the number
     */
    public long size() {
        return end - start;
    }
}
