/**
 * ATP: sends and receives messages of which a stated share must arrive (NetApprox).
 *
 * <p>A sender states the minimal sampling rate (MSR), the share of its N messages that must be
 * delivered. At the end, either the receiving program has at least ceil(MSR * N) messages, or a
 * {@link org.netapprox.atp.ShortfallException} tells how many are missing and why.
 *
 * <p>{@link org.netapprox.atp.Job} sends, and {@link org.netapprox.atp.Receiver} receives.
 *
 * <p>{@link org.netapprox.atp.Table} sends rows, and {@link org.netapprox.atp.QueryReceiver}
 * answers a query of them, with an interval for each answer.
 */
package org.netapprox.atp;
