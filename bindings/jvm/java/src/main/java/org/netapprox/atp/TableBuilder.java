package org.netapprox.atp;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

/** How rows become the messages of a {@link Table}. An option that isn't set has its default. */
public final class TableBuilder {
    private int rows;
    private boolean ordered;
    private Long seed;

    TableBuilder() {}

    /**
     * The most rows of a message. Default: as many as fit a packet.
     *
     * @param rows 1 or more
     * @return this builder
     * @throws IllegalArgumentException if it is below 1
     */
    public TableBuilder rowsPerMessage(int rows) {
        if (rows < 1) {
            throw new IllegalArgumentException(
                    "a message must have 1 row at least, not " + rows);
        }
        this.rows = rows;
        return this;
    }

    /**
     * Whether the rows keep their order: incomplete answers then have a warning. Otherwise they are
     * shuffled, so that those that arrive are a fair sample. Default: off.
     *
     * @param on whether they keep it
     * @return this builder
     */
    public TableBuilder ordered(boolean on) {
        ordered = on;
        return this;
    }

    /**
     * The seed of shuffled rows. Default: drawn.
     *
     * @param seed any number
     * @return this builder
     */
    public TableBuilder seed(long seed) {
        this.seed = seed;
        return this;
    }

    /**
     * Divides rows into messages.
     *
     * @param rows the rows, one at least
     * @return the table
     * @throws IllegalArgumentException if there is no row, or a seed is set beside an order
     */
    public Table of(Rows rows) {
        return ofCsv(rows.csv());
    }

    /**
     * Divides a table of CSV into messages.
     *
     * @param csv the text in UTF-8: a line with the columns' names, then one row at least
     * @return the table
     * @throws IllegalArgumentException if it is no CSV or has no row, a quote has no end, or a seed
     *     is set beside an order
     */
    public Table ofCsv(byte[] csv) {
        Objects.requireNonNull(csv, "csv");
        Library.load();
        return new Table(Native.tableRead(csv, rows, ordered, seed != null, seed == null ? 0 : seed));
    }

    /**
     * Divides a file of CSV into messages.
     *
     * @param csv the file, shorter than 2 GiB: see {@link #ofCsv(byte[])}
     * @return the table
     * @throws IllegalArgumentException as {@link #ofCsv(byte[])}
     * @throws IOException if the file can't be read
     */
    public Table ofCsv(Path csv) throws IOException {
        return ofCsv(Files.readAllBytes(csv));
    }
}
