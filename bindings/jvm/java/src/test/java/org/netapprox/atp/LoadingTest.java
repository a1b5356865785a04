package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The native library in several class loaders, and jars that it can't be loaded from. */
class LoadingTest {
    private static final String LIBRARY =
            "META-INF/native/"
                    + Library.platform(System.getProperty("os.name"), System.getProperty("os.arch"))
                    + "/libatp_jvm.so";
    private static final String VERSION = "META-INF/org.netapprox.atp.properties";

    @TempDir Path folder;

    @Test
    void twoClassLoadersHaveALibraryEach() throws Exception {
        try (URLClassLoader one = loader();
                URLClassLoader other = loader()) {
            Callable<String> first = program(one);
            Callable<String> second = program(other);
            assertNotSame(first.getClass(), second.getClass());
            assertEquals(first.call(), second.call());
            assertEquals(second.call(), first.call());
        }
    }

    /** The classes go, with open jobs and lent memory. The JVM stays. */
    @Test
    void classesAreUnloaded() throws Exception {
        for (int round = 0; round < 3; round++) {
            WeakReference<ClassLoader> gone = runAndForget();
            long hangs = System.nanoTime() + Pairs.HANGS.toNanos();
            while (gone.get() != null) {
                assertTrue(System.nanoTime() < hangs, "something still has the class loader");
                System.gc();
                Thread.sleep(20);
            }
        }
        // Threads of the library may still end.
        try (URLClassLoader again = loader()) {
            assertTrue(program(again).call().startsWith("100000 bytes"));
        }
    }

    private WeakReference<ClassLoader> runAndForget() throws Exception {
        try (URLClassLoader loader = loader()) {
            assertTrue(program(loader).call().startsWith("100000 bytes"));
            return new WeakReference<>(loader);
        }
    }

    @Test
    void aLibraryForAnotherProcessorIsRefused() throws Exception {
        byte[] library = resource(LIBRARY);
        // The machine in its header: S/390.
        library[18] = 22;
        write(LIBRARY, library);
        refused("processor 22");
        byte[] head = Arrays.copyOf(resource(LIBRARY), 20);
        write(LIBRARY, "no library".getBytes());
        refused("no library");
        UnsatisfiedLinkError e =
                assertThrows(UnsatisfiedLinkError.class,
                        () -> Library.checkProcessor(head, "linux-riscv64"));
        assertTrue(e.getMessage().contains("use the jar for linux-riscv64"), e.getMessage());
    }

    @Test
    void twoVersionsOnOnePathAreRefused() throws Exception {
        write(VERSION, "version=0.0.1".getBytes());
        refused("keep one of {0.0.1=");
    }

    /** As in Flink: the program's class loader has a jar, and its parent another version. */
    @Test
    void aParentMayHaveAnotherVersion() throws Exception {
        write(VERSION, "version=0.0.1".getBytes());
        URL[] parents = {folder.toUri().toURL()};
        List<URL> own = new ArrayList<>();
        for (Class<?> of : List.of(Job.class, LoadedProgram.class)) {
            own.add(of.getProtectionDomain().getCodeSource().getLocation());
        }
        try (var parent = new URLClassLoader(parents, ClassLoader.getPlatformClassLoader());
                var child = new URLClassLoader(own.toArray(URL[]::new), parent)) {
            assertTrue(program(child).call().startsWith("100000 bytes"));
        }
    }

    @Test
    void theSameJarTwiceIsNoFault() throws Exception {
        write(VERSION, resource(VERSION));
        assertTrue(run().startsWith("100000 bytes"));
    }

    @Test
    void aFolderThatCantBeWrittenIsNamed() throws Exception {
        String property = "org.netapprox.atp.folder";
        System.setProperty(property, folder.resolve("nowhere").toString());
        try {
            refused("name another folder with -Dorg.netapprox.atp.folder");
        } finally {
            System.clearProperty(property);
        }
        assertEquals(List.of(), Files.list(folder).toList());
    }

    /** The first call and the second say the same. */
    private void refused(String part) throws Exception {
        try (URLClassLoader loader = loader()) {
            Callable<String> program = program(loader);
            for (int call = 0; call < 2; call++) {
                UnsatisfiedLinkError e =
                        assertThrows(UnsatisfiedLinkError.class, program::call);
                assertTrue(e.getMessage().contains(part), e.getMessage());
                assertTrue(!e.getMessage().contains("\n"), e.getMessage());
            }
        }
    }

    private String run() throws Exception {
        try (URLClassLoader loader = loader()) {
            return program(loader).call();
        }
    }

    /** The jar and this folder's tests, behind the files that a test has written. */
    private URLClassLoader loader() throws Exception {
        List<URL> urls = new ArrayList<>();
        urls.add(folder.toUri().toURL());
        for (Class<?> of : List.of(Job.class, LoadedProgram.class)) {
            urls.add(of.getProtectionDomain().getCodeSource().getLocation());
        }
        return new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }

    @SuppressWarnings("unchecked")
    private static Callable<String> program(ClassLoader loader) throws Exception {
        Class<?> program = loader.loadClass(LoadedProgram.class.getName());
        return (Callable<String>) program.getConstructor().newInstance();
    }

    private static byte[] resource(String name) throws IOException {
        try (InputStream in = Job.class.getClassLoader().getResourceAsStream(name)) {
            return in.readAllBytes();
        }
    }

    private void write(String name, byte[] bytes) throws IOException {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        Files.write(file, bytes);
    }
}
