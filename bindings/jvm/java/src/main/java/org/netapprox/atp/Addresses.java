package org.netapprox.atp;

import java.net.Inet6Address;
import java.net.InetSocketAddress;

/** Addresses as texts for the native library. */
final class Addresses {
    private Addresses() {}

    static String text(InetSocketAddress address) {
        // A name that Java has resolved stands for that address.
        String host =
                address.isUnresolved()
                        ? address.getHostString()
                        : address.getAddress().getHostAddress();
        boolean isIpv6 = address.getAddress() instanceof Inet6Address;
        return (isIpv6 ? "[" + host + "]" : host) + ":" + address.getPort();
    }
}
