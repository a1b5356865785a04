package org.netapprox.atp;

/**
 * The requests of its receiver that a job obeys: {@link Receiver#requestMsr} and {@link
 * Receiver#requestEnd}.
 */
public final class RequestPolicy {
    /** It obeys. */
    public static final RequestPolicy OBEY = new RequestPolicy("obey");

    /** It refuses all. */
    public static final RequestPolicy REFUSE = new RequestPolicy("refuse");

    private final String option;

    private RequestPolicy(String option) {
        this.option = option;
    }

    /**
     * It obeys within bounds. A request beyond a bound sets the bound.
     *
     * @param msrMin the lowest sampling rate, 0 to 1
     * @param msrMax the highest sampling rate, {@code msrMin} to 1
     * @param mayEnd whether the receiver may end the job
     * @return the policy; {@link JobBuilder#connect} checks the bounds
     */
    public static RequestPolicy within(double msrMin, double msrMax, boolean mayEnd) {
        return new RequestPolicy(msrMin + " " + msrMax + " " + mayEnd);
    }

    /** The text for the native library. */
    String option() {
        return option;
    }

    @Override
    public String toString() {
        return option;
    }
}
