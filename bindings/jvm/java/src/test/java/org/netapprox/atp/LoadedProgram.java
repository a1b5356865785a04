package org.netapprox.atp;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/** A program that a test runs in a class loader of its own. */
public final class LoadedProgram implements Callable<String> {
    /** Objects that the program never closes. */
    private final List<Object> lost = new ArrayList<>();

    /** Sends and receives, and leaves open objects, lent memory and a callback behind. */
    @Override
    public String call() throws Exception {
        Receiver receiver = Pairs.receiver();
        Job job = Pairs.options().connect(receiver.address());
        lost.add(receiver);
        lost.add(job);
        ByteBuffer message = ByteBuffer.allocateDirect(100_000);
        for (int i = 0; i < 20; i++) {
            job.sendOwned(0, message, () -> lost.add(message));
        }
        while (true) {
            if (receiver.recv(Pairs.HANGS) instanceof Event.Message received) {
                return received.data().remaining() + " bytes, version " + Native.version();
            }
        }
    }
}
