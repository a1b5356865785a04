package org.netapprox.atp;

/**
 * Data of a sender that can't be counted: rows that can't be read, or numbers that contradict
 * earlier ones. They are left out, and the query goes on.
 */
public final class DataException extends AtpException {
    private static final long serialVersionUID = 1L;

    DataException(String message) {
        super(message);
    }
}
