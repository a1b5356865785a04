package org.netapprox.atp.testing;

import java.io.PrintStream;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestDescriptor;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.TestTag;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the tests of a folder of classes, and prints each outcome as Rust's tests do, which {@code
 * cargo xtask test} counts. Leaves out tests whose names don't contain {@code ATP_TEST_FILTER}, and
 * those that have the tag {@code ATP_TEST_WITHOUT_TAG}.
 */
public final class RunTests implements TestExecutionListener {
    /** The exit code of Rust's test binaries after a failed test. Others are failures. */
    private static final int TESTS_FAILED = 101;
    /** After this time a test is interrupted, and the stacks of all threads are printed. */
    private static final String HUNG_AFTER = "2 m";

    private final PrintStream out = System.out;
    private final Map<String, Long> begunNs = new ConcurrentHashMap<>();
    private final Map<String, Throwable> failures = new LinkedHashMap<>();
    private int passed;
    private int ignored;

    private RunTests() {}

    public static void main(String[] folders) {
        String filter = variable("ATP_TEST_FILTER");
        String tag = variable("ATP_TEST_WITHOUT_TAG");
        var request = LauncherDiscoveryRequestBuilder.request()
                .selectors(DiscoverySelectors.selectClasspathRoots(Set.of(Path.of(folders[0]))))
                .filters(named(filter), without(tag))
                .configurationParameter("junit.jupiter.execution.timeout.default", HUNG_AFTER)
                .configurationParameter(
                        "junit.jupiter.execution.timeout.threaddump.enabled", "true")
                .build();
        var outcomes = new RunTests();
        LauncherFactory.create().execute(request, outcomes);
        System.exit(outcomes.conclude());
    }

    private static String variable(String name) {
        return Optional.ofNullable(System.getenv(name)).orElse("");
    }

    private static PostDiscoveryFilter without(String tag) {
        return test -> FilterResult.includedIf(tag.isEmpty()
                || !test.getTags().contains(TestTag.create(tag)));
    }

    private static PostDiscoveryFilter named(String filter) {
        return test -> FilterResult.includedIf(!test.isTest() && !isTemplate(test)
                || name(test.getSource(), test.getDisplayName()).contains(filter));
    }

    /** A method whose tests are known only when it runs. */
    private static boolean isTemplate(TestDescriptor test) {
        return test.mayRegisterTests() && test.getSource().orElse(null) instanceof MethodSource;
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        if (test.isTest()) {
            begunNs.put(test.getUniqueId(), System.nanoTime());
            out.printf("%nbegan %s%n", name(test));
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        ignore(name(test), reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        String name = name(test);
        Throwable thrown = result.getThrowable().orElse(null);
        switch (result.getStatus()) {
            case SUCCESSFUL -> {
                if (test.isTest()) {
                    passed++;
                    took(test, name);
                    out.printf("%ntest %s ... ok%n", name);
                }
            }
            case ABORTED -> ignore(name, thrown == null ? "" : thrown.getMessage());
            // Of a class, too, whose preparation failed.
            case FAILED -> {
                took(test, name);
                failures.put(name, thrown);
                out.printf("%ntest %s ... FAILED%n", name);
            }
        }
    }

    private void took(TestIdentifier test, String name) {
        Long began = begunNs.remove(test.getUniqueId());
        if (began != null) {
            out.printf("%ntook %s: %.3f s%n", name, (System.nanoTime() - began) / 1e9);
        }
    }

    private void ignore(String name, String reason) {
        ignored++;
        String words = reason.replaceFirst("^Assumption failed: ", "").lines().findFirst().orElse("");
        out.printf("%ntest %s ... ignored, %s%n", name, words);
    }

    /** Prints the counts, and returns the exit code. */
    private int conclude() {
        if (!failures.isEmpty()) {
            out.printf("%nfailures:%n");
            failures.forEach((name, thrown) -> {
                out.printf("%n---- %s ----%n", name);
                thrown.printStackTrace(out);
            });
        }
        String outcome = failures.isEmpty() ? "ok" : "FAILED";
        out.printf("%ntest result: %s. %d passed; %d failed; %d ignored%n",
                outcome, passed, failures.size(), ignored);
        return failures.isEmpty() ? 0 : TESTS_FAILED;
    }

    private static String name(TestIdentifier test) {
        return name(test.getSource(), test.getDisplayName());
    }

    /** {@code JobTest::method}, and the display name of one of several tests of a method. */
    private static String name(Optional<TestSource> source, String displayed) {
        if (source.orElse(null) instanceof MethodSource method) {
            String name = simple(method.getClassName()) + "::" + method.getMethodName();
            boolean isOnly = displayed.startsWith(method.getMethodName());
            return isOnly ? name : name + " " + displayed.lines().findFirst().orElse("");
        }
        if (source.orElse(null) instanceof ClassSource of) {
            return simple(of.getClassName());
        }
        return displayed;
    }

    private static String simple(String className) {
        return className.substring(className.lastIndexOf('.') + 1);
    }
}
