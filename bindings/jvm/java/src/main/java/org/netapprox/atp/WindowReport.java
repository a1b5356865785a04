package org.netapprox.atp;

import java.util.List;

/**
 * The outcome of one window, from {@link Job#endWindow}.
 *
 * @param window the window's number, counted from 0
 * @param complete whether every group has ceil(MSR * N) messages; if not, the window's deadline had
 *     passed before
 * @param groups one entry per group
 */
public record WindowReport(long window, boolean complete, List<GroupReport> groups) {
    static WindowReport read(Fields f) {
        return new WindowReport(f.u32(), f.flag(), f.list(GroupReport::read));
    }
}
