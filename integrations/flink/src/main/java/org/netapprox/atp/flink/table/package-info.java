/**
 * The table connector {@code atp} of Flink SQL, and functions that estimate over all records of
 * windows: {@link org.netapprox.atp.flink.table.AtpAvg}, {@link
 * org.netapprox.atp.flink.table.AtpSum} and {@link org.netapprox.atp.flink.table.AtpCount}.
 */
package org.netapprox.atp.flink.table;
