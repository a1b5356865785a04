package org.netapprox.atp;

import java.io.IOException;

/**
 * A failure of a job or a receiver. The message is one sentence: what failed, on what, and what to
 * do.
 *
 * <p>Failures that Java has exceptions for are of those classes: {@link java.net.BindException} for
 * a port that is taken, {@link java.net.UnknownHostException}, {@link java.net.SocketException},
 * {@link IllegalArgumentException} for an option or an argument out of its range, and {@link
 * IllegalStateException} for a call that the job can't take at present.
 */
public class AtpException extends IOException {
    private static final long serialVersionUID = 1L;

    AtpException(String message) {
        super(message);
    }
}
