package org.netapprox.atp;

/** Whether an answer is as good as was asked for. */
public enum Verdict {
    /** It is: no warning puts it in doubt, and an accepted error is met. */
    FINE,
    /** A warning or a sender puts it in doubt. */
    IN_DOUBT,
    /** An interval is wider than accepted, or few messages carry it. */
    NOT_MET
}
