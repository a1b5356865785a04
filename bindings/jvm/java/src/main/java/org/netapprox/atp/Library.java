package org.netapprox.atp;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Collections;
import java.util.Locale;
import java.util.Properties;
import java.util.TreeMap;

/**
 * Loads the native library, which the jar contains.
 *
 * <p>It is copied to a file first. Each class loader has a copy of its own, since a JVM loads a
 * file for one class loader only. The file is deleted once it is loaded.
 */
final class Library {
    /** The property that names the folder of the copy. */
    private static final String FOLDER = "org.netapprox.atp.folder";

    private static final String NAME = "libatp_jvm.so";
    private static final String VERSION = "META-INF/org.netapprox.atp.properties";

    private Library() {}

    static void load() {
        String version = onlyVersion();
        String platform = platform(System.getProperty("os.name"), System.getProperty("os.arch"));
        byte[] library = read("META-INF/native/" + platform + "/" + NAME, platform);
        checkProcessor(library, platform);
        loadCopy(library);
        if (!Native.version().equals(version)) {
            throw new UnsatisfiedLinkError(
                    "the jar of atp " + version + " has the native library of " + Native.version()
                            + ": build the jar again");
        }
    }

    /** The version of this jar. Two versions on one path would mix classes of both. */
    private static String onlyVersion() {
        TreeMap<String, URL> versions = new TreeMap<>();
        try {
            ClassLoader loader = Library.class.getClassLoader();
            for (URL url : Collections.list(loader.getResources(VERSION))) {
                Properties properties = new Properties();
                try (InputStream in = url.openStream()) {
                    properties.load(in);
                }
                versions.put(properties.getProperty("version", "unknown"), url);
            }
        } catch (IOException e) {
            throw linkError("the jar of atp can't be read", e);
        }
        if (versions.size() > 1) {
            throw new UnsatisfiedLinkError(
                    "the class path has several versions of atp: keep one of " + versions);
        }
        if (versions.isEmpty()) {
            throw new UnsatisfiedLinkError(
                    "the jar of atp lacks " + VERSION + ": a program that was packed into one jar"
                            + " must keep its folder META-INF");
        }
        return versions.firstKey();
    }

    /** The folder of the library for a processor, such as {@code linux-x86_64}. */
    static String platform(String os, String processor) {
        String name = processor.equals("amd64") ? "x86_64" : processor;
        return os.toLowerCase(Locale.ROOT) + "-" + name;
    }

    private static byte[] read(String resource, String platform) {
        try (InputStream in = Library.class.getClassLoader().getResourceAsStream(resource)) {
            if (in == null) {
                throw new UnsatisfiedLinkError(
                        "this jar of atp has no native library for " + platform
                                + ": use a jar that has " + resource);
            }
            return in.readAllBytes();
        } catch (IOException e) {
            throw linkError("the native library can't be read from the jar of atp", e);
        }
    }

    /** Refuses another processor's library, of which the linker would only say that it's wrong. */
    static void checkProcessor(byte[] library, String platform) {
        // The ELF header: a magic number, and the machine at byte 18.
        boolean isElf =
                library.length > 20
                        && new String(library, 0, 4, StandardCharsets.ISO_8859_1).equals("\177ELF");
        int machine = isElf ? Byte.toUnsignedInt(library[18]) : -1;
        String found =
                switch (machine) {
                    case 62 -> "x86_64";
                    case 183 -> "aarch64";
                    default -> isElf ? "processor " + machine : "no library";
                };
        if (!platform.endsWith("-" + found)) {
            throw new UnsatisfiedLinkError(
                    "the native library in the jar of atp is for " + found + ", and this JVM is "
                            + platform + ": use the jar for " + platform);
        }
    }

    private static void loadCopy(byte[] library) {
        Path folder = Path.of(System.getProperty(FOLDER, System.getProperty("java.io.tmpdir")));
        Path copy = null;
        try {
            var mine = PosixFilePermissions.fromString("rwx------");
            copy = Files.createTempFile(
                    folder, "atp-", ".so", PosixFilePermissions.asFileAttribute(mine));
            Files.write(copy, library);
            System.load(copy.toAbsolutePath().toString());
        } catch (IOException e) {
            throw linkError("the native library of atp can't be written to " + folder
                    + ": name another folder with -D" + FOLDER + "=FOLDER", e);
        } catch (UnsatisfiedLinkError e) {
            throw linkError("the native library of atp can't be loaded from " + folder
                    + ": name a folder that may hold programs with -D" + FOLDER + "=FOLDER", e);
        } finally {
            delete(copy);
        }
    }

    private static void delete(Path copy) {
        try {
            if (copy != null) {
                Files.deleteIfExists(copy);
            }
        } catch (IOException e) {
            // It is only a file that is left.
        }
    }

    private static UnsatisfiedLinkError linkError(String sentence, Throwable cause) {
        var error = new UnsatisfiedLinkError(sentence + " (" + cause.getMessage() + ")");
        error.initCause(cause);
        return error;
    }
}
