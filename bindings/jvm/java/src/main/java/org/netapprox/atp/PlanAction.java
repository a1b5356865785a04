package org.netapprox.atp;

/**
 * A step of the plan for an accepted error: see {@link Query#nextAction}. Later versions may have
 * more kinds: skip those that a program doesn't know.
 */
public sealed interface PlanAction {
    /**
     * Ask the sender of the stratum for a higher sampling rate: {@link Receiver#requestMsr}.
     *
     * @param stratum the stratum
     * @param msr the new rate, 0 to 1
     */
    record Raise(int stratum, double msr) implements PlanAction {}

    /**
     * Ask the sender of the stratum for a lower sampling rate.
     *
     * @param stratum the stratum
     * @param msr the new rate, 0 to 1
     */
    record Lower(int stratum, double msr) implements PlanAction {}

    /** Ask all senders to end, as the error is met: {@link Receiver#requestEnd}. */
    record End() implements PlanAction {}

    /**
     * Nothing to ask for.
     *
     * @param messages the number of messages of all strata after which the plan looks again
     */
    record Wait(long messages) implements PlanAction {}
}
