"""The sender of `cargo xtask bench python`: what `job.rs` of `bench library` does, from Python."""

import json
import sys
import time

import atp

to, size, batch, seconds, msr, rate_max = sys.argv[1:]
job = atp.Job(
    to,
    messages=1 << 24,
    msr=float(msr),
    payload_bytes=int(size),
    rate_max_bytes_per_s=int(rate_max),
    control_socket=None,
)
messages = [bytes(int(size))] * int(batch)
cpu_s, started = time.process_time(), time.monotonic()
while time.monotonic() - started < float(seconds):
    job.send_many(messages)
report = job.finish()
tally = {
    "packets": report.packets_sent,
    "packets_retransmitted": report.packets_retransmitted,
    "bytes": report.bytes_sent,
    "active_s": report.elapsed_s,
    "cpu_s": time.process_time() - cpu_s,
}
print(json.dumps(tally))
