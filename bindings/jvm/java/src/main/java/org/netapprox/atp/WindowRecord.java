package org.netapprox.atp;

import java.util.List;
import java.util.OptionalLong;

/**
 * A record of a window.
 *
 * @param offset its place in the stream
 * @param timestampMs event time, milliseconds since 1970, if it has one
 * @param key the key; null without one
 * @param value the value; null for a tombstone
 * @param headers names and values of the headers, in their order
 */
public record WindowRecord(
        long offset, OptionalLong timestampMs, byte[] key, byte[] value, List<Header> headers) {
    /**
     * A header.
     *
     * @param name the name
     * @param value the value, which may be null
     */
    public record Header(String name, byte[] value) {
        static Header read(Fields f) {
            return new Header(f.text(), optionalBlob(f));
        }
    }

    static WindowRecord read(Fields f) {
        long offset = f.u64();
        OptionalLong time = f.optionalU64();
        return new WindowRecord(
                offset, time, optionalBlob(f), optionalBlob(f), f.list(Header::read));
    }

    private static byte[] optionalBlob(Fields f) {
        return f.flag() ? f.blob() : null;
    }
}
