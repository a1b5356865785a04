/** Splits, enumerator and reader of {@link org.netapprox.atp.flink.AtpSource}: not for programs. */
package org.netapprox.atp.flink.source;
