package org.netapprox.atp.flink.source;

import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.util.List;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.util.FlinkRuntimeException;

/**
 * A reader tells the enumerator the addresses of its task manager's host.
 *
 * @param ips IP addresses without names of interfaces
 * @serial exclude
 */
@Internal
public record HostAddresses(List<String> ips) implements SourceEvent {
    private static final long serialVersionUID = 1;

    /**
     * The addresses of all interfaces of this host.
     *
     * @return the addresses
     */
    public static HostAddresses ofThisHost() {
        try {
            return new HostAddresses(
                    NetworkInterface.networkInterfaces()
                            .flatMap(NetworkInterface::inetAddresses)
                            .map(HostAddresses::text)
                            .sorted()
                            .distinct()
                            .toList());
        } catch (SocketException e) {
            throw new FlinkRuntimeException(
                    "the addresses of the task manager's host can't be read: " + e.getMessage(), e);
        }
    }

    /**
     * Whether a program on the host can listen at an address.
     *
     * @param address the address
     * @return whether it can
     */
    public boolean has(ListenAddress address) {
        return address.isOfEveryHost() || ips.contains(text(address.ip()));
    }

    /** Without the name of an interface, which the addresses of an interface have. */
    private static String text(InetAddress ip) {
        try {
            return InetAddress.getByAddress(ip.getAddress()).getHostAddress();
        } catch (UnknownHostException e) {
            throw new AssertionError("an address has 4 or 16 bytes", e);
        }
    }
}
