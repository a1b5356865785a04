package org.netapprox.atp;

/**
 * A window of a stream.
 *
 * @param stream the stream
 * @param epoch how often the stream was assigned to a sender, this time included
 * @param number the window's number; by event time it is the time divided by the windows' length
 * @param part the part of the window, from 0 on: one beyond its sender's memory has several
 */
public record WindowId(WindowStream stream, long epoch, long number, long part) {
    static WindowId read(Fields f) {
        return new WindowId(WindowStream.read(f), f.u64(), f.u64(), f.u32());
    }

    /** The window in the words of a log, such as {@code readings [3], window 17}. */
    @Override
    public String toString() {
        return stream + ", window " + number + (part > 0 ? ", part " + (part + 1) : "");
    }
}
