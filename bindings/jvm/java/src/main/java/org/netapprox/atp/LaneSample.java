package org.netapprox.atp;

import java.util.OptionalDouble;

/**
 * The state of a lane, a group's share of the path, at one moment.
 *
 * @param atSeconds seconds since the job was opened
 * @param group the lane's group
 * @param targetLossRate the target loss rate (NetApprox §4.2, Eq. 1), 0 to 1
 * @param rateBytesPerSecond the lane's rate, bytes per second
 * @param loss the loss of the last evaluated epoch, 0 to 1
 * @param queue the lane's queue in the switches, 0 to 7
 * @param rttMicros the smoothed round-trip time, microseconds; empty before the first measurement
 */
public record LaneSample(
        double atSeconds,
        int group,
        double targetLossRate,
        long rateBytesPerSecond,
        double loss,
        int queue,
        OptionalDouble rttMicros) {
    static LaneSample read(Fields f) {
        return new LaneSample(
                f.f64(), f.u8(), f.f64(), f.u64(), f.f64(), f.u8(), f.optionalF64());
    }
}
