package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * Inputs of {@link CallFuzzer}: the corpus, and random ones. {@code -Datp.seed=SEED} runs a random
 * one again, and {@code -Datp.inputs=NUMBER} runs more.
 */
class CallFuzzerTest {
    private static final int INPUT_BYTES = 400;

    /** The inputs of which Jazzer found that they reach other code, one a line, as digits. */
    @Test
    void theCorpusHolds() throws Exception {
        List<String> inputs;
        try (var in = CallFuzzerTest.class.getResourceAsStream("calls.txt");
                var reader = new BufferedReader(
                        new InputStreamReader(in, StandardCharsets.US_ASCII))) {
            inputs = reader.lines().toList();
        }
        assertTrue(inputs.size() > 100, "the corpus has lost its inputs");
        for (String input : inputs) {
            try {
                CallFuzzer.fuzzerTestOneInput(HexFormat.of().parseHex(input));
            } catch (Throwable e) {
                throw new AssertionError("the input " + input, e);
            }
        }
    }

    @Test
    void randomCallsEndNoJvm() throws Exception {
        Long replayed = Long.getLong("atp.seed");
        int inputs = replayed != null ? 1 : Integer.getInteger("atp.inputs", 30);
        Random seeds = new Random();
        for (int number = 0; number < inputs; number++) {
            long seed = replayed != null ? replayed : seeds.nextLong();
            byte[] input = new byte[INPUT_BYTES];
            new Random(seed).nextBytes(input);
            try {
                CallFuzzer.fuzzerTestOneInput(input);
            } catch (Throwable e) {
                throw new AssertionError("-Datp.seed=" + seed, e);
            }
        }
    }
}
