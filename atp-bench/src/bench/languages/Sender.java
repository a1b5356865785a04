import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import org.netapprox.atp.Job;
import org.netapprox.atp.Report;

/** The sender of `cargo xtask bench jvm`: what `job.rs` of `bench library` does, from Java. */
public class Sender {
    public static void main(String[] args) throws Exception {
        int size = Integer.parseInt(args[1]);
        int batch = Integer.parseInt(args[2]);
        double seconds = Double.parseDouble(args[3]);
        Warmup.run(size, batch);
        ByteBuffer messages = ByteBuffer.allocateDirect(size * batch);
        try (Job job =
                Job.builder()
                        .messages(1 << 24)
                        .msr(Double.parseDouble(args[4]))
                        .payloadBytes(size)
                        .rateMaxBytesPerSecond(Long.parseLong(args[5]))
                        .noDaemon()
                        .connect(args[0])) {
            long cpu = cpuNanos();
            long started = System.nanoTime();
            while (System.nanoTime() - started < seconds * 1e9) {
                job.sendMany(0, messages.rewind(), size);
            }
            Report report = job.finish();
            System.out.printf(
                    "{\"packets\": %d, \"packets_retransmitted\": %d, \"bytes\": %d,"
                            + " \"active_s\": %s, \"cpu_s\": %s}%n",
                    report.packetsSent(),
                    report.packetsRetransmitted(),
                    report.bytesSent(),
                    report.elapsedSeconds(),
                    (cpuNanos() - cpu) / 1e9);
        }
    }

    private static long cpuNanos() {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
    }
}
