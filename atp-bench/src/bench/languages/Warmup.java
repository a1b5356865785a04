import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.netapprox.atp.Batch;
import org.netapprox.atp.Event;
import org.netapprox.atp.Job;

/** Sends and receives in this JVM for three seconds, so that it has compiled the code. */
final class Warmup {
    private static final double SECONDS = 3;

    private Warmup() {}

    static void run(int size, int batch) throws Exception {
        var options = org.netapprox.atp.Receiver.builder().noDaemon();
        try (var receiver = options.bind("127.0.0.1:0");
                Job job = Job.builder().noDaemon().msr(0.8).connect(receiver.address())) {
            var received = CompletableFuture.supplyAsync(() -> receive(receiver));
            ByteBuffer messages = ByteBuffer.allocateDirect(size * batch);
            long started = System.nanoTime();
            while (System.nanoTime() - started < SECONDS * 1e9) {
                job.sendMany(0, messages.rewind(), size);
            }
            job.finish();
            received.get();
        }
    }

    private static long receive(org.netapprox.atp.Receiver receiver) {
        try {
            long bytes = 0;
            Batch batch = Batch.ofBytes(256 << 10);
            while (receiver.recvBatch(batch, Duration.ofSeconds(10))) {
                for (Event event : batch.events()) {
                    if (event instanceof Event.Message message) {
                        bytes += message.data().remaining();
                    }
                    if (event instanceof Event.Finished) {
                        return bytes;
                    }
                }
            }
            throw new IllegalStateException("no message arrived within 10 s");
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
