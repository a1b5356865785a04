"""Long DCTCP flows through one port in ns-3, as atp-sim/examples/long_flows.rs has them.

usage: long_flows.py watched|timed SCENARIO..., which are JSON, as is what is printed, a line for
each. Only what is watched has a mean queue, and only what isn't takes its usual time.

What has to be set for the two to be about the same thing:
- A line's packet has 2 bytes of PPP header here, 38 of Ethernet there: the gap between frames makes
  up for the other 36.
- A port here is a queue discipline before a device's own queue, which holds one packet: RED marks
  from K - 1 on, and what waits in both counts.
- RED as a step (QW, MinTh = MaxTh, no gentle slope), as ns-3's own dctcp-example begins it; hosts
  have a plain queue, not the usual FQ-CoDel, which marks as well.
- Segments of 1,448 bytes with time stamps, an ACK for each, ten in the first window, SACK.
- The shortest timeout must be longer than a round trip: in ns-3 a flow whose round trips don't vary
  would time out with every packet.
"""

import json
import sys
import time

from ns import ns

# The time-weighted sum of what waits, kept where every packet changes it: a callback to Python for
# each would take longer than the simulation.
ns.cppyy.cppdef(
    """
    namespace waiting {
    uint32_t packets[2] = {0, 0};
    int64_t since = 0;
    double packet_steps = 0;
    void settle() {
        int64_t now = ns3::Simulator::Now().GetTimeStep();
        packet_steps += double(packets[0] + packets[1]) * double(now - since);
        since = now;
    }
    void reset() { settle(); packet_steps = 0; }
    void start() { packets[0] = packets[1] = 0; since = 0; }
    void discipline(uint32_t, uint32_t now) { settle(); packets[0] = now; }
    void device(uint32_t, uint32_t now) { settle(); packets[1] = now; }
    void watch(ns3::Ptr<ns3::QueueDisc> disc, ns3::Ptr<ns3::Object> queue) {
        disc->TraceConnectWithoutContext("PacketsInQueue", ns3::MakeCallback(&discipline));
        queue->TraceConnectWithoutContext("PacketsInQueue", ns3::MakeCallback(&device));
    }
    double mean(double steps) { settle(); return packet_steps / steps; }
    }
    """
)


def configure(scenario):
    """The defaults of everything that is made afterwards. A packet waits in the device."""
    threshold = float(scenario["mark_from_packets"] - 1)
    for name, value in {
        "TcpL4Protocol::SocketType": ns.StringValue("ns3::TcpDctcp"),
        "TcpSocket::SegmentSize": ns.UintegerValue(1448),
        "TcpSocket::InitialCwnd": ns.UintegerValue(10),
        "TcpSocket::DelAckCount": ns.UintegerValue(1),
        "TcpSocket::SndBufSize": ns.UintegerValue(1 << 20),
        "TcpSocket::RcvBufSize": ns.UintegerValue(1 << 24),
        "TcpSocketBase::Sack": ns.BooleanValue(True),
        "TcpSocketBase::Timestamp": ns.BooleanValue(True),
        "TcpSocketBase::MinRto": ns.StringValue(f"{scenario['timeout_us_min']}us"),
        "TcpSocketBase::ClockGranularity": ns.StringValue("1us"),
        "RedQueueDisc::UseEcn": ns.BooleanValue(True),
        "RedQueueDisc::UseHardDrop": ns.BooleanValue(False),
        "RedQueueDisc::Gentle": ns.BooleanValue(False),
        "RedQueueDisc::QW": ns.DoubleValue(1.0),
        "RedQueueDisc::MinTh": ns.DoubleValue(threshold),
        "RedQueueDisc::MaxTh": ns.DoubleValue(threshold),
        "RedQueueDisc::MeanPktSize": ns.UintegerValue(1500),
        "RedQueueDisc::MaxSize": ns.StringValue("970p"),
    }.items():
        ns.Config.SetDefault("ns3::" + name, value)


def build(scenario):
    """A star: node 0 is the switch, 1 the receiver. Returns the sinks, the queue disciplines of the
    switch's ports, and the device of the first of these, the bottleneck."""
    nodes = ns.NodeContainer()
    nodes.Create(scenario["senders"] + 2)
    stack = ns.InternetStackHelper()
    stack.Install(nodes)

    link = ns.PointToPointHelper()
    bits_per_s = scenario["gbit_per_s"] * 1_000_000_000
    link.SetDeviceAttribute("DataRate", ns.StringValue(f"{bits_per_s}bps"))
    gap_ps = 36 * 8 * 1_000_000_000_000 // bits_per_s
    link.SetDeviceAttribute("InterframeGap", ns.StringValue(f"{gap_ps}ps"))
    link.SetDeviceAttribute("Mtu", ns.UintegerValue(1500))
    link.SetChannelAttribute("Delay", ns.StringValue(f"{scenario['latency_ns']}ns"))
    link.SetQueue("ns3::DropTailQueue", "MaxSize", ns.StringValue("1p"))

    red = ns.TrafficControlHelper()
    red.SetRootQueueDisc("ns3::RedQueueDisc")
    plain = ns.TrafficControlHelper()
    plain.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", ns.StringValue("100000p"))
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase("10.0.0.0", "255.255.255.0")
    at_switch = []
    for host in range(1, nodes.GetN()):
        devices = link.Install(nodes.Get(0), nodes.Get(host))
        at_switch.append((red.Install(devices.Get(0)).Get(0), devices.Get(0)))
        plain.Install(devices.Get(1))
        interfaces = addresses.Assign(devices)
        addresses.NewNetwork()
        if host == 1:
            receiver = interfaces.GetAddress(1)
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()

    sinks = []
    for sender in range(scenario["senders"]):
        port = 5000 + sender
        sink = ns.PacketSinkHelper(
            "ns3::TcpSocketFactory",
            ns.InetSocketAddress(ns.Ipv4Address.GetAny(), port).ConvertTo(),
        ).Install(nodes.Get(1))
        source = ns.BulkSendHelper(
            "ns3::TcpSocketFactory", ns.InetSocketAddress(receiver, port).ConvertTo()
        )
        source.SetAttribute("MaxBytes", ns.UintegerValue(0))
        source.SetAttribute("SendSize", ns.UintegerValue(1448))
        source.Install(nodes.Get(sender + 2))
        sinks.append(sink.Get(0))
    return sinks, [disc for disc, _ in at_switch], at_switch[0][1]


def measure(scenario, is_watched):
    configure(scenario)
    sinks, discs, device = build(scenario)
    disc = discs[0]
    if is_watched:
        ns.cppyy.gbl.waiting.start()
        ns.cppyy.gbl.waiting.watch(disc, device.GetQueue())

    def received():
        return [sink.GetObject[ns.PacketSink]().GetTotalRx() for sink in sinks]

    def marked_and_dropped():
        stats = disc.GetStats()
        marked = stats.GetNMarkedPackets(ns.RedQueueDisc.FORCED_MARK)
        return marked, stats.nTotalDroppedPackets

    def run(duration_us):
        ns.Simulator.Stop(ns.MicroSeconds(duration_us))
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        ns.Simulator.Run()
        return time.perf_counter() - wall_s, time.process_time() - cpu_s

    first = run(scenario["warm_up_us"])
    received_before = received()
    marked_before, dropped_before = marked_and_dropped()
    ns.cppyy.gbl.waiting.reset()
    second = run(scenario["measure_us"])
    marked, dropped = marked_and_dropped()
    # ns-3 counts time in nanoseconds.
    mean = ns.cppyy.gbl.waiting.mean(scenario["measure_us"] * 1e3) if is_watched else None
    outcome = {
        "delivered_bytes": [now - was for now, was in zip(received(), received_before)],
        "queue_mean_packets": mean,
        "marked_packets": marked - marked_before,
        "dropped_packets": dropped - dropped_before,
        "forwarded_packets": sum(each.GetStats().nTotalSentPackets for each in discs),
        "events": ns.Simulator.GetEventCount(),
        "wall_s": first[0] + second[0],
        "cpu_s": first[1] + second[1],
    }
    ns.Simulator.Destroy()
    return outcome


for argument in sys.argv[2:]:
    print(json.dumps(measure(json.loads(argument), sys.argv[1] == "watched")), flush=True)
