package org.netapprox.atp.flink.source;

import java.io.Serializable;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.annotation.Internal;

/**
 * An IP address with a port. Names aren't resolved: each host might resolve them differently.
 *
 * @param text the address as it was given
 * @param ip the IP address, without the name of an interface
 * @param port the port, 1 to 65535
 * @serial exclude
 */
@Internal
public record ListenAddress(String text, InetAddress ip, int port) implements Serializable {
    private static final long serialVersionUID = 1;

    private static final Pattern ADDRESS =
            Pattern.compile("(?:\\[([^\\[\\]]+)\\]|([^:\\[\\]]+)):(\\d{1,5})");
    private static final String BYTE = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
    private static final Pattern IPV4 = Pattern.compile(BYTE + "(\\." + BYTE + "){3}");
    private static final Pattern IPV6 =
            Pattern.compile("([0-9a-fA-F:.]*:[0-9a-fA-F:.]*)(%[\\w.-]+)?");

    /**
     * Reads an address.
     *
     * @param text the address, such as {@code 0.0.0.0:4747} or {@code [::1]:4747}
     * @return the address
     * @throws IllegalArgumentException if it is none
     */
    public static ListenAddress parse(String text) {
        Matcher parts = ADDRESS.matcher(text);
        if (parts.matches()) {
            boolean isIpv6 = parts.group(1) != null;
            String host = isIpv6 ? parts.group(1) : parts.group(2);
            InetAddress ip = ip(host);
            int port = Integer.parseInt(parts.group(3));
            boolean isIp = ip != null && isIpv6 == host.contains(":");
            if (isIp && port >= 1 && port <= 65_535) {
                return new ListenAddress(text, ip, port);
            }
        }
        throw new IllegalArgumentException(
                "\"" + text + "\" is no address to listen at: give an IP address with a port of 1"
                        + " to 65535, such as 0.0.0.0:4747 or [::]:4747");
    }

    /**
     * Reads an IP address.
     *
     * @param text the address, such as {@code 10.0.0.3} or {@code fe80::1%eth0}
     * @return the address without the name of an interface; null if it is none
     */
    public static InetAddress ip(String text) {
        Matcher ipv6 = IPV6.matcher(text);
        if (!ipv6.matches() && !IPV4.matcher(text).matches()) {
            return null;
        }
        try {
            // Neither is a name, so nothing is resolved.
            return InetAddress.getByName(ipv6.matches() ? "[" + ipv6.group(1) + "]" : text);
        } catch (UnknownHostException e) {
            return null;
        }
    }

    /**
     * Whether every host has the address: a wildcard, or one of the loopback interface.
     *
     * @return whether it has
     */
    public boolean isOfEveryHost() {
        return ip.isAnyLocalAddress() || ip.isLoopbackAddress();
    }

    /** The address as it was given. */
    @Override
    public String toString() {
        return text;
    }
}
