-- Wireshark dissector of ATP, version 1. Header and bodies are those of atp-common/src/wire.

-- Wireshark has an "atp" already, the AppleTalk Transaction Protocol.
local atp = Proto("approx", "Approximate Transport Protocol")

local HEADER_LEN = 32
local MAGIC = 0xa7
local VERSION = 1
local DATA, ACK, PROBE, RECEIPT, FIN, FIN_ACK, RESET, PROBE_ACK = 1, 2, 3, 4, 5, 6, 7, 8
local TERMS, REQUEST = 9, 10

local KINDS = {
  [DATA] = "DATA", [ACK] = "ACK", [PROBE] = "PROBE", [RECEIPT] = "RECEIPT",
  [FIN] = "FIN", [FIN_ACK] = "FIN-ACK", [RESET] = "RESET", [PROBE_ACK] = "PROBE-ACK",
  [TERMS] = "TERMS", [REQUEST] = "REQUEST",
}

local REASONS = {
  [1] = "the receiver does not accept this job",
  [2] = "the receiver has no room at present",
  [3] = "a message is larger than the receiver accepts",
  [4] = "the packets of one message contradict each other",
  [5] = "the receiving application went away",
  [6] = "the receiver has forgotten this job: it was silent for long, or was refused",
  [7] = "the job has more messages than the receiver accepts",
}

local ORDERS = { [0] = "unknown", [1] = "of the data", [2] = "shuffled" }

-- Bit, name, and the kinds that may carry each flag. Flags of different kinds may share a bit.
local FLAGS = {
  { 1, "CONGESTION", { [ACK] = true } },
  { 2, "RETRANSMIT", { [DATA] = true, [ACK] = true } },
  { 4, "ORDERED", { [DATA] = true, [ACK] = true } },
  { 8, "PACKED", { [DATA] = true, [ACK] = true } },
  { 8, "FORCED", { [FIN] = true, [FIN_ACK] = true } },
  { 16, "BACKLOGGED", { [DATA] = true, [ACK] = true } },
  { 16, "MORE", { [FIN] = true, [FIN_ACK] = true } },
  { 32, "NO_ACK", { [DATA] = true, [ACK] = true } },
  { 64, "WHOLE_WINDOW", { [DATA] = true, [ACK] = true } },
  { 128, "WINDOW", { [DATA] = true, [ACK] = true } },
  { 128, "ENDED", { [FIN] = true, [FIN_ACK] = true } },
}

local f = {
  magic = ProtoField.uint8("approx.magic", "Magic", base.HEX),
  version = ProtoField.uint8("approx.version", "Version", base.DEC, nil, 0xf0),
  kind = ProtoField.uint8("approx.kind", "Kind", base.DEC, KINDS, 0x0f),
  flags = ProtoField.uint8("approx.flags", "Flags", base.HEX),
  group = ProtoField.uint8("approx.group", "Group"),
  job = ProtoField.uint32("approx.job", "Job"),
  cookie = ProtoField.uint32("approx.cookie", "Cookie", base.HEX),
  message = ProtoField.uint32("approx.message", "Message"),
  index = ProtoField.uint24("approx.index", "Index"),
  window = ProtoField.uint8("approx.window", "Window", base.DEC, nil, 0xfc),
  segmentation = ProtoField.uint8("approx.segmentation", "Segmentation", base.DEC, nil, 0xfc),
  count = ProtoField.uint24("approx.count", "Count", base.DEC, nil, 0x03ffff),
  epoch = ProtoField.uint16("approx.epoch", "Epoch"),
  slot = ProtoField.uint32("approx.slot", "Slot"),
  time = ProtoField.uint32("approx.time", "Send time (1,024 ns)"),
  data = ProtoField.bytes("approx.data", "Message data"),
  member = ProtoField.uint32("approx.packed.message", "Message"),
  member_len = ProtoField.uint16("approx.packed.length", "Length"),
  padding = ProtoField.bytes("approx.packed.padding", "Padding"),
  probe_word = ProtoField.uint32("approx.probe.word", "Delivery bits", base.HEX),
  probe_epoch = ProtoField.uint16("approx.probe.epoch", "Epoch"),
  ack_arrived = ProtoField.uint32("approx.ack.arrived", "Arrival time of the packet (1,024 ns)"),
  probe_arrived = ProtoField.uint32("approx.probe.arrived", "Packets arrived"),
  probe_marked = ProtoField.uint32("approx.probe.marked", "Packets ECN-marked"),
  cumulative = ProtoField.uint32("approx.receipt.cumulative", "Cumulative"),
  delivered = ProtoField.uint32("approx.receipt.delivered", "Delivered"),
  packets_arrived = ProtoField.uint32("approx.receipt.packets_arrived", "Packets arrived"),
  word_group = ProtoField.uint8("approx.receipt.word.group", "Group"),
  word_index = ProtoField.uint24("approx.receipt.word.index", "Index"),
  word_bits = ProtoField.uint64("approx.receipt.word.bits", "Delivery bits", base.HEX),
  window = ProtoField.uint32("approx.fin.window", "Window"),
  fin_group = ProtoField.uint8("approx.fin.group", "Group"),
  fin_messages = ProtoField.uint32("approx.fin.messages", "Messages"),
  fin_needed = ProtoField.uint32("approx.fin.needed", "Needed"),
  fin_delivered = ProtoField.uint32("approx.fin.delivered", "Delivered"),
  terms_window = ProtoField.uint32("approx.terms.window", "Window"),
  terms_answered = ProtoField.uint32("approx.terms.answered", "Answered request"),
  terms_group = ProtoField.uint8("approx.terms.group", "Group"),
  terms_known = ProtoField.bool("approx.terms.known", "N is known", 8, nil, 1),
  terms_exact = ProtoField.bool("approx.terms.exact", "Exact", 8, nil, 2),
  terms_shortest = ProtoField.bool("approx.terms.shortest_first", "Short messages first", 8, nil, 4),
  terms_order = ProtoField.uint8("approx.terms.order", "Order", base.DEC, ORDERS),
  terms_buffer = ProtoField.uint8("approx.terms.buffer", "Messages of the shuffle's buffer (log2)"),
  terms_messages = ProtoField.uint32("approx.terms.messages", "Messages"),
  terms_msr = ProtoField.uint32("approx.terms.msr", "MSR (parts per billion)"),
  terms_name = ProtoField.stringz("approx.terms.name", "Name", base.UNICODE),
  request_end = ProtoField.uint32("approx.request.end", "End"),
  request_group = ProtoField.uint8("approx.request.group", "Group"),
  request_msr = ProtoField.uint32("approx.request.msr", "MSR (parts per billion)"),
  reason = ProtoField.uint16("approx.reset.reason", "Reason", base.DEC, REASONS),
}

local flag_fields = {}
for i, flag in ipairs(FLAGS) do
  flag_fields[i] = ProtoField.bool("approx.flags." .. flag[2]:lower(), flag[2], 8, nil, flag[1])
end

local all_fields = {}
for _, field in pairs(f) do all_fields[#all_fields + 1] = field end
for _, field in ipairs(flag_fields) do all_fields[#all_fields + 1] = field end
atp.fields = all_fields

local malformed = ProtoExpert.new(
  "approx.malformed", "Malformed ATP packet", expert.group.MALFORMED, expert.severity.ERROR)
atp.experts = { malformed }

atp.prefs.ports = Pref.range(
  "UDP ports", "4747",
  "Ports to dissect as ATP. On other ports, packets with a valid header are dissected.", 65535)

-- Adds expert information and a note to the Info column.
local function complain(packet, reason)
  packet.tree:add_proto_expert_info(malformed, reason)
  packet.info = packet.info .. ", malformed: " .. reason
end

-- The end of a line about a packet that was not captured completely.
local function lacks(missing)
  return string.format(", the capture lacks %d bytes", missing)
end

-- The names of the set flags, and whether this kind may carry them all.
local function read_flags(tvb, kind)
  local names, left = {}, tvb(2, 1):uint()
  for _, flag in ipairs(FLAGS) do
    local bit, name, kinds = flag[1], flag[2], flag[3]
    if kinds[kind] and math.floor(tvb(2, 1):uint() / bit) % 2 == 1 then
      names[#names + 1] = name
      left = left - bit
    end
  end
  return table.concat(names, "|"), left == 0
end

-- The fields that the summary and the checks need. All 32 bytes must be captured.
local function read_header(tvb)
  local kind = tvb(1, 1):bitfield(4, 4)
  local flags, allowed = read_flags(tvb, kind)
  local is_data = kind == DATA or kind == ACK
  local overlaps = is_data and tvb(2, 1):bitfield(0, 1) == 1
  local segmentation = tvb(19, 1):bitfield(0, 6)
  local window = nil
  if overlaps then
    window = tvb(16, 1):bitfield(0, 6)
  elseif kind == RECEIPT and math.floor(tvb(22, 2):uint() / 8) % 2 == 1 then
    window = segmentation
  end
  return {
    kind = kind,
    flags = flags,
    packed = is_data and tvb(2, 1):bitfield(4, 1) == 1,
    flags_allowed = allowed,
    message = tvb(12, 4):uint(),
    overlaps = overlaps,
    window = window,
    index = overlaps and tvb(16, 3):bitfield(6, 18) or tvb(16, 3):uint(),
    segmentation = segmentation,
    count = tvb(19, 3):bitfield(6, 18),
    epoch = tvb(22, 2):uint(),
    slot = tvb(24, 4):uint(),
    time = tvb(28, 4):uint(),
  }
end

-- The checks of `Header::kind` in atp-common: a list of what is wrong.
local function header_errors(header)
  local kind, errors = header.kind, {}
  if not KINDS[kind] then return { "unknown kind" } end
  if not header.flags_allowed then errors[#errors + 1] = "a flag that this kind does not have" end
  if (kind == DATA or kind == ACK) and header.index >= header.count then
    errors[#errors + 1] = "packet index not below packet count"
  end
  if (kind == PROBE or kind == PROBE_ACK) and header.slot % 32 ~= 0 then
    errors[#errors + 1] = "slot not a multiple of 32"
  end
  return errors
end

local function add_header(tree, tvb)
  local kind = tvb(1, 1):bitfield(4, 4)
  local is_of_data = kind == DATA or kind == ACK
  tree:add(f.magic, tvb(0, 1))
  tree:add(f.version, tvb(1, 1))
  tree:add(f.kind, tvb(1, 1))
  local flags = tree:add(f.flags, tvb(2, 1))
  local kind = tvb(1, 1):bitfield(4, 4)
  for i, field in ipairs(flag_fields) do
    -- Of two flags with one bit, show that of the packet's kind.
    local is_shared = FLAGS[i][1] == 8 or FLAGS[i][1] == 16 or FLAGS[i][1] == 128
    if not is_shared or FLAGS[i][3][kind] then flags:add(field, tvb(2, 1)) end
  end
  tree:add(f.group, tvb(3, 1))
  tree:add(f.job, tvb(4, 4))
  tree:add(f.cookie, tvb(8, 4))
  tree:add(f.message, tvb(12, 4))
  local header = read_header(tvb)
  tree:add(f.index, tvb(16, 3), header.index)
  if header.overlaps then tree:add(f.window, tvb(16, 1)) end
  tree:add(f.segmentation, tvb(19, 1))
  tree:add(f.count, tvb(19, 3))
  tree:add(f.epoch, tvb(22, 2))
  tree:add(f.slot, tvb(24, 4))
  tree:add(f.time, tvb(28, 4))
end

-- The line of the header, as the `Display` of `Header` in atp-common prints it.
local function summary(packet, tvb)
  local p, kind = packet, packet.kind
  local parts = { KINDS[kind] }
  if p.flags ~= "" then parts[#parts + 1] = p.flags end
  parts[#parts + 1] = string.format("job %d group %d", tvb(4, 4):uint(), tvb(3, 1):uint())
  local window = p.window and string.format("window %d ", p.window) or ""
  if p.packed then
    parts[#parts + 1] = string.format(
      "%d messages from %d %sslot %d epoch %d time %d",
      p.count, p.message, window, p.slot, p.epoch, p.time)
  elseif kind == DATA or kind == ACK then
    parts[#parts + 1] = string.format(
      "message %d packet %d/%d segmentation %d %sslot %d epoch %d time %d",
      p.message, p.index, p.count, p.segmentation, window, p.slot, p.epoch, p.time)
  elseif kind == PROBE or kind == PROBE_ACK then
    parts[#parts + 1] = string.format(
      "number %d slots %d..%d next slot %d epoch %d time %d",
      p.index, p.slot, (p.slot + 256) % 2 ^ 32, p.message, p.epoch, p.time)
  elseif kind == RECEIPT then
    parts[#parts + 1] = string.format(
      "number %d %sslot %d time %d", p.index, window, p.slot, p.time)
    if p.epoch ~= 0 then parts[#parts + 1] = string.format("features %d", p.epoch) end
    if p.count ~= 0 then parts[#parts + 1] = string.format("terms %d", p.count) end
    if p.message ~= 0 then
      parts[#parts + 1] = string.format("advice %.0f bytes/s", 64 * p.message)
    end
  elseif kind == FIN or kind == FIN_ACK then
    parts[#parts + 1] = string.format(
      "attempt %d page %d/%d messages %d slot %d time %d",
      p.index, p.epoch, p.count, p.message, p.slot, p.time)
  elseif kind == TERMS then
    parts[#parts + 1] = string.format(
      "revision %d page %d/%d slot %d time %d", p.index, p.epoch, p.count, p.slot, p.time)
  elseif kind == REQUEST then
    parts[#parts + 1] = string.format("slot %d time %d", p.slot, p.time)
  else
    parts[#parts + 1] = string.format(
      "message %d slot %d reason %d (%s)",
      p.message, p.slot, p.epoch, REASONS[p.epoch] or "unknown")
  end
  return table.concat(parts, " ")
end

-- Earlier versions sent no time of arrival, and it is missing in answers to the shortest packets.
local function add_ack(packet, body)
  if body:len() == 0 then return end
  if body:len() < 4 then return complain(packet, "the body is not 4 bytes long") end
  packet.tree:add(f.ack_arrived, body(0, 4))
  packet.info = packet.info .. string.format(" arrived %d", body(0, 4):uint())
end

local function add_probe(packet, body)
  if body:len() ~= 80 then return complain(packet, "the body is not 80 bytes long") end
  for i = 0, 7 do
    local item = packet.tree:add(f.probe_word, body(4 * i, 4))
    item:append_text(string.format(" (slots from %d)", (packet.slot + 32 * i) % 2 ^ 32))
  end
  for i = 0, 3 do
    local at = 32 + 12 * i
    local tree = packet.tree:add(body(at, 12), "Counts of an epoch")
    tree:add(f.probe_epoch, body(at, 2))
    tree:add(f.probe_arrived, body(at + 4, 4))
    tree:add(f.probe_marked, body(at + 8, 4))
  end
end

local function add_receipt(packet, body)
  if body:len() < 12 or body:len() % 12 ~= 0 or body:len() > 12 + 96 * 12 then
    return complain(packet, "the length of the body is not that of a receipt")
  end
  packet.tree:add(f.cumulative, body(0, 4))
  packet.tree:add(f.delivered, body(4, 4))
  packet.tree:add(f.packets_arrived, body(8, 4))
  packet.info = packet.info .. string.format(
    ", cumulative %d delivered %d packets arrived %d",
    body(0, 4):uint(), body(4, 4):uint(), body(8, 4):uint())
  for at = 12, body:len() - 12, 12 do
    local first = 64 * body(at + 1, 3):uint()
    local label = string.format("Messages %d to %d of group %d", first, first + 63, body(at, 1):uint())
    local tree = packet.tree:add(body(at, 12), label)
    tree:add(f.word_group, body(at, 1))
    tree:add(f.word_index, body(at + 1, 3))
    tree:add(f.word_bits, body(at + 4, 8))
  end
end

local function add_fin(packet, body)
  local groups = (body:len() - 4) / 16
  if groups < 1 or groups > 28 or groups % 1 ~= 0 then
    return complain(packet, "the length of the body is not that of 1 to 28 groups")
  end
  packet.tree:add(f.window, body(0, 4))
  packet.info = packet.info .. string.format(", window %d", body(0, 4):uint())
  local last = -1
  for at = 4, body:len() - 16, 16 do
    local id = body(at, 1):uint()
    local messages, needed, delivered =
      body(at + 4, 4):uint(), body(at + 8, 4):uint(), body(at + 12, 4):uint()
    local tree = packet.tree:add(body(at, 16), string.format("Counts of group %d", id))
    tree:add(f.fin_group, body(at, 1))
    tree:add(f.fin_messages, body(at + 4, 4))
    tree:add(f.fin_needed, body(at + 8, 4))
    tree:add(f.fin_delivered, body(at + 12, 4))
    packet.info = packet.info .. string.format(
      ", group %d delivered %d needed %d messages %d", id, delivered, needed, messages)
    if body(at + 1, 3):uint() ~= 0 then complain(packet, "the padding is not zero") end
    if id <= last then complain(packet, "the groups are not in ascending order") end
    if needed > messages or delivered > messages then
      complain(packet, "a count exceeds the number of messages")
    end
    last = id
  end
end

local MSR_MAX = 1000000000

local function add_terms(packet, body)
  local groups = (body:len() - 8) / 44
  if groups < 1 or groups > 11 or groups % 1 ~= 0 then
    return complain(packet, "the length of the body is not that of 1 to 11 groups")
  end
  packet.tree:add(f.terms_window, body(0, 4))
  packet.tree:add(f.terms_answered, body(4, 4))
  packet.info = packet.info .. string.format(
    ", window %d answered %d", body(0, 4):uint(), body(4, 4):uint())
  local last = -1
  for at = 8, body:len() - 44, 44 do
    local id, msr = body(at, 1):uint(), body(at + 8, 4):uint()
    local tree = packet.tree:add(body(at, 44), string.format("Terms of group %d", id))
    tree:add(f.terms_group, body(at, 1))
    tree:add(f.terms_known, body(at + 1, 1))
    tree:add(f.terms_exact, body(at + 1, 1))
    tree:add(f.terms_shortest, body(at + 1, 1))
    tree:add(f.terms_order, body(at + 2, 1))
    tree:add(f.terms_buffer, body(at + 3, 1))
    tree:add(f.terms_messages, body(at + 4, 4))
    tree:add(f.terms_msr, body(at + 8, 4))
    tree:add(f.terms_name, body(at + 12, 32))
    if id <= last then complain(packet, "the groups are not in ascending order") end
    if msr > MSR_MAX then complain(packet, "the sampling rate is above 1") end
    last = id
  end
end

local function add_request(packet, body)
  local groups = (body:len() - 4) / 8
  if groups < 0 or groups > 60 or groups % 1 ~= 0 then
    return complain(packet, "the length of the body is not that of at most 60 groups")
  end
  packet.tree:add(f.request_end, body(0, 4))
  if body(0, 4):uint() > 1 then complain(packet, "the end is neither 0 nor 1") end
  local last = -1
  for at = 4, body:len() - 8, 8 do
    local id, msr = body(at, 1):uint(), body(at + 4, 4):uint()
    local tree = packet.tree:add(body(at, 8), string.format("Request for group %d", id))
    tree:add(f.request_group, body(at, 1))
    tree:add(f.request_msr, body(at + 4, 4))
    if id <= last then complain(packet, "the groups are not in ascending order") end
    if msr > MSR_MAX then complain(packet, "the sampling rate is above 1") end
    last = id
  end
end

-- The checks of `PackedBody::parse` in atp-common.
local function add_packed(packet, body)
  if packet.index ~= 0 or packet.segmentation ~= 0 or packet.count < 2 then
    return complain(packet, "not the header of a packed packet")
  end
  local at, members = 0, {}
  for n = 1, packet.count do
    if at + 6 > body:len() or at + 6 + body(at + 4, 2):uint() > body:len() then
      return complain(packet, "a member is incomplete")
    end
    local id, len = body(at, 4):uint(), body(at + 4, 2):uint()
    if n == 1 and id ~= packet.message then
      return complain(packet, "the first member is not the header's message")
    end
    local tree = packet.tree:add(body(at, 6 + len), string.format("Message %d", id))
    tree:add(f.member, body(at, 4))
    tree:add(f.member_len, body(at + 4, 2))
    if len > 0 then tree:add(f.data, body(at + 6, len)) end
    members[n] = string.format("%d:%d", id, len)
    at = at + 6 + len
  end
  if at < body:len() then packet.tree:add(f.padding, body(at)) end
  packet.info = packet.info .. ", messages " .. table.concat(members, " ")
end

-- `missing`: the number of body bytes that the capture lacks.
local function add_body(packet, body, missing)
  local kind = packet.kind
  if packet.packed and kind == DATA and missing == 0 then
    packet.info = packet.info .. string.format(", %d bytes", body:len())
    add_packed(packet, body)
  elseif kind == DATA then
    if body:len() > 0 then packet.tree:add(f.data, body()) end
    packet.info = packet.info .. string.format(", %d bytes", body:len() + missing)
  elseif missing > 0 then
    packet.info = packet.info .. lacks(missing)
  elseif kind == ACK then
    add_ack(packet, body)
  elseif kind == PROBE or kind == PROBE_ACK then
    add_probe(packet, body)
  elseif kind == RECEIPT then
    add_receipt(packet, body)
  elseif kind == FIN or kind == FIN_ACK then
    add_fin(packet, body)
  elseif kind == TERMS then
    add_terms(packet, body)
  elseif kind == REQUEST then
    add_request(packet, body)
  elseif body:len() > 0 then
    complain(packet, "bytes after the header")
  end
end

local function starts_like_atp(tvb)
  return tvb:len() >= 2 and tvb(0, 1):uint() == MAGIC and tvb(1, 1):bitfield(0, 4) == VERSION
end

-- Dissects a packet whose header is captured; returns it.
local function add_packet(tvb, tree, missing)
  local packet = read_header(tvb)
  packet.tree, packet.info = tree, "invalid header"
  add_header(tree, tvb)
  if KINDS[packet.kind] then packet.info = summary(packet, tvb) end
  for _, reason in ipairs(header_errors(packet)) do complain(packet, reason) end
  if KINDS[packet.kind] then
    if packet.kind == RESET then tree:add(f.reason, tvb(22, 2)) end
    local is_empty = tvb:len() == HEADER_LEN
    local body = is_empty and ByteArray.new():tvb("Empty body") or tvb(HEADER_LEN):tvb()
    add_body(packet, body, missing)
  end
  return packet
end

function atp.dissector(tvb, pinfo, root)
  if not starts_like_atp(tvb) then return 0 end
  pinfo.cols.protocol = "ATP"
  local tree = root:add(atp, tvb())
  -- A capture can lack the end of a packet, which doesn't make the packet malformed.
  local missing = tvb:reported_len() - tvb:len()
  if missing > 0 then tree:append_text(lacks(missing)) end
  local packet = { tree = tree, info = "invalid header" }
  if tvb:reported_len() < HEADER_LEN then
    complain(packet, "shorter than 32 bytes")
  elseif tvb:len() < HEADER_LEN then
    packet.info = "header not captured" .. lacks(missing)
  else
    packet = add_packet(tvb, tree, missing)
  end
  pinfo.cols.info = packet.info
  return tvb:len()
end

local registered
function atp.prefs_changed()
  local ports = DissectorTable.get("udp.port")
  if registered then ports:remove(registered, atp) end
  registered = atp.prefs.ports
  ports:add(registered, atp)
end

registered = atp.prefs.ports
DissectorTable.get("udp.port"):add(registered, atp)

atp:register_heuristic("udp", function(tvb, pinfo, root)
  -- Other protocols use the same first bytes, so only a valid header, captured completely, counts.
  if tvb:len() < HEADER_LEN or not starts_like_atp(tvb) then return false end
  if #header_errors(read_header(tvb)) > 0 then return false end
  atp.dissector(tvb, pinfo, root)
  return true
end)
