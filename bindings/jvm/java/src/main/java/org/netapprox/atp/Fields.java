package org.netapprox.atp;

import java.net.InetAddress;
import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Function;

/** Reads the structures that the native library writes (its {@code record.rs}), field by field. */
final class Fields {
    private final ByteBuffer bytes;

    Fields(ByteBuffer bytes) {
        this.bytes = bytes.order(ByteOrder.nativeOrder());
    }

    Fields(byte[] bytes) {
        this(ByteBuffer.wrap(bytes));
    }

    boolean flag() {
        return bytes.get() != 0;
    }

    int u8() {
        return Byte.toUnsignedInt(bytes.get());
    }

    long u32() {
        return Integer.toUnsignedLong(bytes.getInt());
    }

    /** A number of 32 bits that is known to be below 2^31. */
    int i32() {
        return bytes.getInt();
    }

    long u64() {
        return bytes.getLong();
    }

    double f64() {
        return bytes.getDouble();
    }

    String text() {
        return new String(blob(), StandardCharsets.UTF_8);
    }

    /** Bytes behind their length. */
    byte[] blob() {
        byte[] blob = new byte[i32()];
        bytes.get(blob);
        return blob;
    }

    OptionalInt optionalI32() {
        return flag() ? OptionalInt.of(i32()) : OptionalInt.empty();
    }

    OptionalLong optionalU32() {
        return flag() ? OptionalLong.of(u32()) : OptionalLong.empty();
    }

    OptionalLong optionalU64() {
        return flag() ? OptionalLong.of(u64()) : OptionalLong.empty();
    }

    OptionalDouble optionalF64() {
        return flag() ? OptionalDouble.of(f64()) : OptionalDouble.empty();
    }

    <T> Optional<T> optional(Function<Fields, T> read) {
        return flag() ? Optional.of(read.apply(this)) : Optional.empty();
    }

    <T> List<T> list(Function<Fields, T> read) {
        int length = i32();
        List<T> all = new ArrayList<>(Math.min(length, bytes.remaining()));
        for (int i = 0; i < length; i++) {
            all.add(read.apply(this));
        }
        return List.copyOf(all);
    }

    InetSocketAddress address() {
        byte[] ip = new byte[16];
        bytes.get(ip);
        int scope = i32();
        int port = i32();
        try {
            InetAddress address = InetAddress.getByAddress(ip);
            // An IPv4 address comes mapped, and Java makes one of IPv4 again.
            return new InetSocketAddress(
                    scope == 0 ? address : Inet6Address.getByAddress(null, ip, scope), port);
        } catch (UnknownHostException e) {
            throw new AssertionError("16 bytes are an address", e);
        }
    }
}
