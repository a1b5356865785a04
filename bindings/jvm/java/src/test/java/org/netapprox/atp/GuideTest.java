package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.jetbrains.kotlin.cli.common.ExitCode;
import org.jetbrains.kotlin.cli.jvm.K2JVMCompiler;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * The samples of the guide's page compile without a warning, run, and exit with 0.
 *
 * <p>Each block of Java or Kotlin is a whole file. Its first line is a comment with the file's
 * name, and, for one of a pair, with the name of the block that runs beside it in its own JVM:
 *
 * <pre>{@code
 * // Send.java, beside Receive.java
 * }</pre>
 *
 * <p>Then {@code Receive} starts first, and {@code Send} once that one has bound its port. The
 * addresses {@link #PEER} and {@link #LOCAL} become an address of this test.
 */
final class GuideTest {
    private static final String PEER = "10.0.0.2:4747";
    private static final String LOCAL = "0.0.0.0:4747";
    private static final int PORT = 4747;
    /** A sample that runs longer hangs. */
    private static final long HUNG_AFTER_S = 60;

    private static final Pattern BLOCK =
            Pattern.compile("^```(?:java|kotlin)\n(.*?)^```", Pattern.MULTILINE | Pattern.DOTALL);
    private static final Pattern HEAD =
            Pattern.compile("// (?<name>\\w+)\\.(?<language>java|kt)(?:, beside (?<beside>\\S+))?\n");

    @TempDir
    private Path folder;

    @TestFactory
    Stream<DynamicTest> sample() throws IOException {
        Map<String, Sample> samples = samples(Files.readString(page()));
        assertFalse(samples.isEmpty(), "the page has no samples");
        Set<String> besides = samples.values().stream().map(Sample::beside).collect(Collectors.toSet());
        return samples.values().stream()
                .filter(sample -> !besides.contains(sample.file()))
                .map(sample -> DynamicTest.dynamicTest(sample.file(), () -> run(sample, samples)));
    }

    /** A block: {@code beside} is the file that runs beside it, or empty. */
    private record Sample(String name, String language, String beside, String text) {
        String file() {
            return name + "." + language;
        }

        String mainClass() {
            return language.equals("kt") ? name + "Kt" : name;
        }
    }

    private static Map<String, Sample> samples(String page) {
        var samples = new LinkedHashMap<String, Sample>();
        for (MatchResult block : BLOCK.matcher(page).results().toList()) {
            String text = block.group(1);
            var head = HEAD.matcher(text);
            assertTrue(head.lookingAt(), "begin it with its file's name, // NAME.java:\n" + text);
            String beside = head.group("beside") == null ? "" : head.group("beside");
            var sample = new Sample(head.group("name"), head.group("language"), beside, text);
            assertEquals(null, samples.put(sample.file(), sample), "two blocks have this name");
        }
        return samples;
    }

    private void run(Sample sample, Map<String, Sample> samples) throws Exception {
        // Another process has another address of the loopback, so no port can be taken.
        int id = (int) ProcessHandle.current().pid();
        int[] host = {127, 128 | id >> 16 & 127, id >> 8 & 255, id & 255};
        var running = new ArrayList<Running>();
        try {
            if (!sample.beside().isEmpty()) {
                Sample beside = samples.get(sample.beside());
                assertTrue(beside != null, "no block is " + sample.beside());
                running.add(start(beside, host));
                awaitBound(host, running.get(0));
            }
            running.add(start(sample, host));
            for (Running program : running) {
                program.awaitSuccess();
            }
        } finally {
            running.forEach(program -> program.process().destroyForcibly());
        }
    }

    private Running start(Sample sample, int[] host) throws Exception {
        Path source = folder.resolve(sample.file());
        Path classes = folder.resolve(sample.name() + "-classes");
        String address =
                String.format("%d.%d.%d.%d:%d", host[0], host[1], host[2], host[3], PORT);
        Files.writeString(source, sample.text().replace(PEER, address).replace(LOCAL, address));
        String classPath = jarOf(Job.class) + ":" + jarOf(kotlin.Unit.class);
        if (sample.language().equals("java")) {
            compileJava(source, classes, classPath);
        } else {
            compileKotlin(source, classes, classPath);
        }
        Path output = folder.resolve(sample.name() + "-output");
        var java = new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin/java").toString(),
                "-cp", classPath + ":" + classes, sample.mainClass());
        java.directory(folder.toFile()).redirectErrorStream(true).redirectOutput(output.toFile());
        return new Running(sample.file(), java.start(), output);
    }

    private record Running(String file, Process process, Path output) {
        void awaitSuccess() throws Exception {
            boolean ended = process.waitFor(HUNG_AFTER_S, TimeUnit.SECONDS);
            String printed = Files.readString(output);
            assertTrue(ended, () -> file + " hangs. It printed:\n" + printed);
            assertEquals(0, process.exitValue(), () -> file + " failed:\n" + printed);
        }
    }

    /** Waits until a UDP socket has the sample's address, or the program has ended. */
    private static void awaitBound(int[] host, Running program) throws Exception {
        String address =
                String.format("%02X%02X%02X%02X:%04X", host[3], host[2], host[1], host[0], PORT);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(HUNG_AFTER_S);
        while (program.process().isAlive() && !udpSockets().contains(address)) {
            assertTrue(System.nanoTime() < until, "no socket at port " + PORT);
            Thread.sleep(5);
        }
    }

    private static String udpSockets() throws IOException {
        return Files.readString(Path.of("/proc/net/udp")) + Files.readString(Path.of("/proc/net/udp6"));
    }

    private static void compileJava(Path source, Path classes, String classPath) {
        var said = new ByteArrayOutputStream();
        int code = ToolProvider.getSystemJavaCompiler().run(null, said, said,
                "--release", "17", "-Xlint:all", "-Werror", "-cp", classPath,
                "-d", classes.toString(), source.toString());
        assertEquals(0, code, said::toString);
    }

    private static void compileKotlin(Path source, Path classes, String classPath) {
        var said = new ByteArrayOutputStream();
        ExitCode code = new K2JVMCompiler().exec(new PrintStream(said),
                "-jvm-target", "17", "-no-stdlib", "-no-reflect", "-Werror", "-classpath", classPath,
                "-d", classes.toString(), source.toString());
        assertEquals(ExitCode.OK, code, said::toString);
    }

    private static Path jarOf(Class<?> type) throws URISyntaxException {
        return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI());
    }

    /** The page lies beside the sources of the jar. Tests run in the folder of the POM. */
    private static Path page() {
        return Path.of(System.getProperty("atp.guide", "../../../docs/src/guide/java.md"));
    }
}
