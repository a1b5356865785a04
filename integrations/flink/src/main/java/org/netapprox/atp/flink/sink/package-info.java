/** The parts of {@link org.netapprox.atp.flink.AtpSink}: its writer, its streams, their state. */
package org.netapprox.atp.flink.sink;
