/** The bytes of states, for source and sink: not for programs. */
package org.netapprox.atp.flink.state;
