package org.netapprox.atp;

/** The job or the receiver is closed, perhaps by another thread during the call. */
public final class ClosedException extends AtpException {
    private static final long serialVersionUID = 1L;

    ClosedException(String message) {
        super(message);
    }
}
