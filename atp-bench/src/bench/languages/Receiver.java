import java.lang.management.ManagementFactory;
import java.time.Duration;
import org.netapprox.atp.Batch;
import org.netapprox.atp.Event;

/** The receiver of `cargo xtask bench jvm`: what `job.rs` of `bench library` does, from Java. */
public class Receiver {
    public static void main(String[] args) throws Exception {
        Warmup.run(Integer.parseInt(args[1]), Integer.parseInt(args[2]));
        var options = org.netapprox.atp.Receiver.builder().noDaemon();
        try (var receiver = options.bind(args[0])) {
            System.out.printf(
                    "{\"at\": \"%s:%d\"}%n",
                    receiver.address().getAddress().getHostAddress(),
                    receiver.address().getPort());
            long cpu = cpuNanos();
            long bytes = 0;
            long first = 0;
            boolean isOver = false;
            Batch batch = Batch.ofBytes(256 << 10);
            while (!isOver) {
                if (!receiver.recvBatch(batch, Duration.ofSeconds(10))) {
                    throw new IllegalStateException("no message arrived within 10 s");
                }
                for (Event event : batch.events()) {
                    if (event instanceof Event.Message message) {
                        first = bytes == 0 ? System.nanoTime() : first;
                        bytes += message.data().remaining();
                    }
                    isOver |= event instanceof Event.Finished;
                }
            }
            System.out.printf(
                    "{\"packets\": %d, \"packets_retransmitted\": 0, \"bytes\": %d,"
                            + " \"active_s\": %s, \"cpu_s\": %s}%n",
                    receiver.stats().packetsReceived(),
                    bytes,
                    (System.nanoTime() - first) / 1e9,
                    (cpuNanos() - cpu) / 1e9);
        }
    }

    private static long cpuNanos() {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
    }
}
