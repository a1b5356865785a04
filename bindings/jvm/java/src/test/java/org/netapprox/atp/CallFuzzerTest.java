package org.netapprox.atp;

import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * Random inputs of {@link CallFuzzer}. {@code -Datp.seed=SEED} runs one again, and {@code
 * -Datp.inputs=NUMBER} runs more.
 */
class CallFuzzerTest {
    private static final int INPUT_BYTES = 400;

    @Test
    void randomCallsEndNoJvm() throws Exception {
        Long replayed = Long.getLong("atp.seed");
        int inputs = replayed != null ? 1 : Integer.getInteger("atp.inputs", 60);
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
