package org.netapprox.atp;

/** There is no answer: not yet, or not of what has arrived. The message says what is missing. */
public final class NoAnswerException extends AtpException {
    private static final long serialVersionUID = 1L;

    NoAnswerException(String message) {
        super(message);
    }
}
