package org.netapprox.atp;

/**
 * Ids of messages.
 *
 * @param start the first id
 * @param end the id behind the last
 */
public record IdRange(int start, int end) {
    static IdRange read(Fields fields) {
        return new IdRange(fields.i32(), fields.i32());
    }
}
