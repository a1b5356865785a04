package org.netapprox.atp;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Collections;
import java.util.List;
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

    /** As much of an ELF header as tells the processor. */
    private static final int HEAD_BYTES = 20;

    private static final String VERSION = "META-INF/org.netapprox.atp.properties";

    /** Guarded by the class. */
    private static boolean isLoaded;

    /** Why it can't be loaded. Guarded by the class. */
    private static UnsatisfiedLinkError failure;

    private Library() {}

    /** Loads it, once. After a failure, each call says the same. */
    static synchronized void load() {
        if (failure != null) {
            throw linkError(failure.getMessage(), failure);
        }
        if (isLoaded) {
            return;
        }
        try {
            find();
            isLoaded = true;
        } catch (UnsatisfiedLinkError e) {
            failure = e;
            throw e;
        }
    }

    private static void find() {
        String version = onlyVersion();
        String platform = platform(System.getProperty("os.name"), System.getProperty("os.arch"));
        loadCopy("META-INF/native/" + platform + "/" + NAME, platform);
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
            List<URL> all = Collections.list(loader.getResources(VERSION));
            // A parent has classes of its own: of servlet containers and of Flink, for example.
            if (loader.getParent() != null) {
                List<URL> parents = Collections.list(loader.getParent().getResources(VERSION));
                List<String> names = parents.stream().map(URL::toString).toList();
                all.removeIf(url -> names.contains(url.toString()));
            }
            for (URL url : all) {
                Properties properties = new Properties();
                try (InputStream in = url.openStream()) {
                    properties.load(in);
                }
                versions.put(properties.getProperty("version", "unknown"), url);
            }
        } catch (IOException e) {
            throw linkError("the jar of atp can't be read (" + e.getMessage() + ")", e);
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

    /** Refuses another processor's library, of which the linker would only say that it's wrong. */
    static void checkProcessor(byte[] head, String platform) {
        // The ELF header: a magic number, and the machine at byte 18.
        boolean isElf =
                head.length == HEAD_BYTES
                        && new String(head, 0, 4, StandardCharsets.ISO_8859_1).equals("\177ELF");
        int machine = isElf ? Byte.toUnsignedInt(head[18]) : -1;
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

    private static void loadCopy(String resource, String platform) {
        Path folder = Path.of(System.getProperty(FOLDER, System.getProperty("java.io.tmpdir")));
        Path copy = null;
        try (InputStream in = Library.class.getClassLoader().getResourceAsStream(resource)) {
            if (in == null) {
                throw new UnsatisfiedLinkError(
                        "this jar of atp has no native library for " + platform
                                + ": use a jar that has " + resource);
            }
            byte[] head = in.readNBytes(HEAD_BYTES);
            checkProcessor(head, platform);
            var mine = PosixFilePermissions.fromString("rwx------");
            copy = Files.createTempFile(
                    folder, "atp-", ".so", PosixFilePermissions.asFileAttribute(mine));
            try (OutputStream out = Files.newOutputStream(copy)) {
                out.write(head);
                in.transferTo(out);
            }
        } catch (IOException e) {
            delete(copy);
            throw linkError("the native library of atp can't be written to " + folder
                    + ": name another folder with -D" + FOLDER + "=FOLDER ("
                    + e.getMessage() + ")", e);
        }
        try {
            System.load(copy.toAbsolutePath().toString());
        } catch (UnsatisfiedLinkError e) {
            throw linkError("the native library of atp can't be loaded from " + folder
                    + ": name a folder that may hold programs with -D" + FOLDER + "=FOLDER ("
                    + e.getMessage() + ")", e);
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
        var error = new UnsatisfiedLinkError(sentence);
        error.initCause(cause);
        return error;
    }
}
