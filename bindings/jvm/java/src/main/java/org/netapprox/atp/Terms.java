package org.netapprox.atp;

import java.util.List;

/**
 * The terms of one sender's job, or of a window of it.
 *
 * @param window the window, counted from 0
 * @param groups one entry per group, by id
 */
public record Terms(long window, List<GroupTerms> groups) {
    static Terms read(Fields f) {
        return new Terms(f.u32(), f.list(GroupTerms::read));
    }
}
