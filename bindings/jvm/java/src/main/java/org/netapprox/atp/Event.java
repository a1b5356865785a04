package org.netapprox.atp;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;

/**
 * An event of a receiver.
 *
 * <p>A job of one sender gives {@link Message} events, then one {@link Finished}. {@link Started}
 * comes behind the first messages. Each window of a job but the last ends with {@link WindowEnded}.
 * Later versions may have more kinds: skip those that a program doesn't know.
 */
public interface Event {
    /**
     * The sender's address.
     *
     * @return the address
     */
    InetSocketAddress source();

    /**
     * The job's id.
     *
     * @return the id, 0 to 2^32 - 1
     */
    long job();

    /**
     * The run of the job, a number from 1 on that the receiver gives to no other run. Only the
     * number tells a sender from a restarted one, and from a host that forges its address and job.
     *
     * @return the run
     */
    long run();

    /**
     * A complete message. Each one is delivered once.
     *
     * @param source the sender's address
     * @param job the job's id
     * @param run the run of the job
     * @param window the window, counted from 0; 0 for a job without windows
     * @param group the message's group; messages of an exact group are delivered in order
     * @param message the message's id, counted from 0 in each group and window
     * @param data the message's bytes, from the position to the limit
     */
    record Message(
            InetSocketAddress source,
            long job,
            long run,
            long window,
            int group,
            int message,
            ByteBuffer data)
            implements Event {}

    /**
     * A sender has told the terms of its job, or of the job's next window.
     *
     * @param source the sender's address
     * @param job the job's id
     * @param run the run of the job
     * @param terms N, MSR and name of each group
     */
    record Started(InetSocketAddress source, long job, long run, Terms terms) implements Event {}

    /**
     * The terms of the current window have changed, or the sender has answered a request.
     *
     * @param source the sender's address
     * @param job the job's id
     * @param run the run of the job
     * @param terms N, MSR and name of each group, as they are now
     */
    record TermsChanged(InetSocketAddress source, long job, long run, Terms terms)
            implements Event {}

    /**
     * A sender has ended a window of its job. Another window follows.
     *
     * @param source the sender's address
     * @param job the job's id
     * @param run the run of the job
     * @param summary the outcome of the window
     */
    record WindowEnded(InetSocketAddress source, long job, long run, Summary summary)
            implements Event {}

    /**
     * A sender has ended its job. Every group has the messages that it needs, unless the sender
     * canceled the job or a deadline had passed: see {@link Summary#complete}.
     *
     * @param source the sender's address
     * @param job the job's id
     * @param run the run of the job
     * @param summary the outcome of the job's last window
     */
    record Finished(InetSocketAddress source, long job, long run, Summary summary)
            implements Event {}
}
