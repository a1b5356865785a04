package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class ListenAddressTest {
    @Test
    void parse__readsIpAddresses() {
        assertEquals("/10.0.0.2", ListenAddress.parse("10.0.0.2:4747").ip().toString());
        assertEquals(65_535, ListenAddress.parse("10.0.0.2:65535").port());
        assertFalse(ListenAddress.parse("10.0.0.2:4747").isOfEveryHost());
        for (String text : List.of("0.0.0.0:1", "[::]:1", "127.3.2.1:1", "[::1]:1")) {
            assertTrue(ListenAddress.parse(text).isOfEveryHost(), text);
        }
        assertEquals(
                ListenAddress.parse("[fe80::1]:1").ip(), ListenAddress.parse("[fe80::1%x]:1").ip());
    }

    @Test
    void parse__refusesOthers() {
        for (String text :
                List.of(
                        "", ":", "4747", "10.0.0.2", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:65536",
                        "10.0.0.2:-1", "10.0.0.2:4747 ", "300.0.0.1:1", "10.0.0:1", "010.0.0.1:1",
                        "localhost:4747", "::1:4747", "[::1]", "[10.0.0.2]:1", "[x]:1", "[]:1",
                        "[:::::]:1", "10.0.0.2:99999", "http://10.0.0.2:1", "[::1]:1:1")) {
            var error =
                    assertThrows(
                            IllegalArgumentException.class, () -> ListenAddress.parse(text), text);
            assertEquals(
                    "\"" + text + "\" is no address to listen at: give an IP address with a port"
                            + " of 1 to 65535, such as 0.0.0.0:4747 or [::]:4747",
                    error.getMessage());
        }
    }

    @Test
    void ip__readsIpAddressesOnly() {
        assertNotNull(ListenAddress.ip("10.0.0.3"));
        assertNotNull(ListenAddress.ip("fe80::1%eth0"));
        for (String text : List.of("", "host", "10.0.0", "10.0.0.3:1", "256.0.0.1", "fe80", "%a")) {
            assertNull(ListenAddress.ip(text), text);
        }
    }
}
