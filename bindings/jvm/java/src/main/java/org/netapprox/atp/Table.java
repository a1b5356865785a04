package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;

/**
 * A table, divided into messages for a receiver that answers a query of it: {@link QueryReceiver}
 * in Java, {@code atp-user recv --query}, and {@code atp.receive} of Python.
 *
 * <pre>{@code
 * try (Table table = Table.ofCsv(Path.of("flights.csv"));
 *         Job job = table.send("db7:4747", Job.builder().msr(0.9))) {
 *     Report report = job.finish();
 * }
 * }</pre>
 *
 * <p>The rows are shuffled, and a message has whole rows. Any part of the messages is then a fair
 * sample. It may be sent several times, also by several threads.
 */
public final class Table implements AutoCloseable {
    private final long number;
    private final long messages;
    private final long rows;
    private final Optional<String> note;
    private final Cleaner.Cleanable cleanable;

    Table(long number) {
        this.number = number;
        cleanable = Closing.register(this, () -> Native.tableClose(number));
        try {
            Fields facts = new Fields(Native.tableFacts(number));
            messages = facts.u64();
            rows = facts.u64();
            note = facts.optional(Fields::text);
        } catch (IOException e) {
            throw new AssertionError("the table is open", e);
        }
    }

    /**
     * The options of a table, at their defaults.
     *
     * @return the options
     */
    public static TableBuilder builder() {
        return new TableBuilder();
    }

    /**
     * Divides rows into messages, with the default options.
     *
     * @param rows the rows, one at least
     * @return the table
     * @throws IllegalArgumentException if there is no row
     */
    public static Table of(Rows rows) {
        return builder().of(rows);
    }

    /**
     * Divides a table of CSV into messages, with the default options.
     *
     * @param csv the text in UTF-8: a line with the columns' names, then one row at least
     * @return the table
     * @throws IllegalArgumentException if it is no CSV or has no row, or a quote has no end
     */
    public static Table ofCsv(byte[] csv) {
        return builder().ofCsv(csv);
    }

    /**
     * Divides a file of CSV into messages, with the default options.
     *
     * @param csv the file, shorter than 2 GiB: see {@link #ofCsv(byte[])}
     * @return the table
     * @throws IllegalArgumentException as {@link #ofCsv(byte[])}
     * @throws IOException if the file can't be read
     */
    public static Table ofCsv(Path csv) throws IOException {
        return builder().ofCsv(csv);
    }

    /**
     * The messages with rows.
     *
     * @return their number
     */
    public long messages() {
        return messages;
    }

    /**
     * The rows.
     *
     * @return their number
     */
    public long rows() {
        return rows;
    }

    /**
     * The oddities of the table, in a line: a number among the columns' names, or values of
     * several lines, of which a stray quote may have made one.
     *
     * @return the note; empty if nothing does
     */
    public Optional<String> note() {
        return note;
    }

    /**
     * Opens a job, and queues all messages. Waits while its buffer is full. {@link Job#finish} then
     * ends it.
     *
     * @param peer the receiver: a name or an address, with a port
     * @param options the job's options. {@link JobBuilder#msr} is the sampling rate of the rows.
     *     Leave out {@code messages}, {@code order} and {@code groups}, which the table sets;
     *     {@code mrdf} is off, since it would deliver the short messages
     * @return the job
     * @throws IllegalArgumentException if an option is out of its range, or the table sets it
     * @throws ShortfallException if the job ends below its minimal sampling rate
     * @throws ClosedException if the table is closed
     * @throws InterruptedException if the thread was interrupted: there is no job then
     * @throws IOException if the job has failed, or as {@link JobBuilder#connect(String)}
     */
    public Job send(String peer, JobBuilder options) throws IOException, InterruptedException {
        Objects.requireNonNull(peer, "peer");
        Job job = new Job(Native.tableConnect(number, peer, options.texts()));
        boolean isSent = false;
        try {
            job.sendTable(number);
            isSent = true;
            return job;
        } finally {
            if (!isSent) {
                job.abandon();
            }
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Opens a job, and queues all messages, as {@link #send(String, JobBuilder)} does.
     *
     * @param peer the receiver's address
     * @param options the job's options
     * @return the job
     * @throws IOException as {@link #send(String, JobBuilder)}
     * @throws InterruptedException as {@link #send(String, JobBuilder)}
     */
    public Job send(InetSocketAddress peer, JobBuilder options)
            throws IOException, InterruptedException {
        return send(Addresses.text(peer), options);
    }

    /** Frees the table's memory. Jobs that have its messages go on. Further calls do nothing. */
    @Override
    public void close() {
        cleanable.clean();
    }

    @Override
    public String toString() {
        return "Table of " + rows + " rows in " + messages + " messages";
    }
}
