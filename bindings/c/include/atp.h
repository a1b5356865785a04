/* libatp: send and receive messages of which a stated share must arrive.
 *
 * Generated from bindings/c/src: don't edit it. The guide is docs/src/guide/c.md.
 *
 * Every function can be called from any thread. Calls on one job wait for each other.
 * Functions that return atp_status return ATP_OK, ATP_AGAIN, or an error, which is negative;
 * atp_last_error has its sentence. After an error, output parameters are unchanged.
 */

#ifndef ATP_H
#define ATP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Zeroes a structure that begins with its size, and sets the size. In options 0 is the default. */
#define ATP_INIT(pointer) \
    (memset((pointer), 0, sizeof *(pointer)), (void)((pointer)->struct_size = sizeof *(pointer)))

/* A computed sampling rate for a field of options, where the number 0 is the default: a rate of 0
 * becomes ATP_MSR_ZERO. */
#define ATP_MSR(rate) ((double)(rate) == 0 ? ATP_MSR_ZERO : (double)(rate))

/**
 * A sampling rate of 0 in options, where the number 0 is the default. Computed rates take
 * ATP_MSR(rate), which may be 0.
 */
#define ATP_MSR_ZERO -1.0

/**
 * The result of a call. Errors are negative.
 */
typedef enum atp_status {
  /**
   * Done.
   */
  ATP_OK = 0,
  /**
   * Nothing at present: no room, no event within the timeout, or the job or window hasn't ended.
   */
  ATP_AGAIN = 1,
  /**
   * A pointer that is needed is null.
   */
  ATP_ERROR_NULL = -1,
  /**
   * struct_size is too small or too large, or bytes that this version doesn't know aren't 0.
   */
  ATP_ERROR_SIZE = -2,
  /**
   * The handle was freed, or belongs to no object of this kind.
   */
  ATP_ERROR_HANDLE = -3,
  /**
   * A text is not UTF-8.
   */
  ATP_ERROR_TEXT = -4,
  /**
   * An argument is out of its range.
   */
  ATP_ERROR_ARGUMENT = -5,
  /**
   * The job has ended: only its report can be read.
   */
  ATP_ERROR_STATE = -6,
  /**
   * The receiver was closed during the call.
   */
  ATP_ERROR_CLOSED = -7,
  /**
   * The function can't be called in a release callback.
   */
  ATP_ERROR_CALLBACK = -8,
  /**
   * A fault of the library. The sentence is worth a report.
   */
  ATP_ERROR_INTERNAL = -9,
  /**
   * The handle belongs to the process that forked this one.
   */
  ATP_ERROR_FORKED = -10,
  /**
   * The minimal sampling rate is not between 0 and 1.
   */
  ATP_ERROR_MSR = -20,
  /**
   * The job was announced with no messages.
   */
  ATP_ERROR_NO_MESSAGES = -21,
  /**
   * A message is longer than the job allows.
   */
  ATP_ERROR_TOO_LARGE = -22,
  /**
   * The job was opened without this group.
   */
  ATP_ERROR_NO_GROUP = -23,
  /**
   * The job's input was ended.
   */
  ATP_ERROR_ENDED = -24,
  /**
   * The sampling rate can't be changed to this value at present.
   */
  ATP_ERROR_MSR_REFUSED = -25,
  /**
   * The group has its announced number of messages already.
   */
  ATP_ERROR_TOO_MANY = -26,
  /**
   * Options are invalid or contradict each other.
   */
  ATP_ERROR_OPTIONS = -27,
  /**
   * A host name has no address.
   */
  ATP_ERROR_NAME = -28,
  /**
   * The address can't be a receiver's.
   */
  ATP_ERROR_PEER = -29,
  /**
   * The highest rate is too low.
   */
  ATP_ERROR_RATE_MAX = -30,
  /**
   * The path's MTU is too small for ATP.
   */
  ATP_ERROR_PATH_TOO_NARROW = -31,
  /**
   * A socket could not be opened, or failed.
   */
  ATP_ERROR_SOCKET = -32,
  /**
   * The daemon can't be reached, or refused.
   */
  ATP_ERROR_DAEMON = -33,
  /**
   * The memory that the daemon shared can't be mapped.
   */
  ATP_ERROR_SHARED_MEMORY = -34,
  /**
   * A thread of the library could not be started, or ended unexpectedly.
   */
  ATP_ERROR_THREAD = -35,
  /**
   * The job ended below its minimal sampling rate: see atp_job_shortfall.
   */
  ATP_ERROR_SHORT = -36,
  /**
   * The receiver has ended the job: atp_job_finish has the report.
   */
  ATP_ERROR_ENDED_BY_RECEIVER = -37,
  /**
   * The name of a group is too long or has a control character.
   */
  ATP_ERROR_GROUP_NAME = -38,
  /**
   * The bounds of a request's sampling rate are the wrong way round.
   */
  ATP_ERROR_REQUEST_BOUNDS = -39,
  /**
   * The end of the window is awaited.
   */
  ATP_ERROR_WINDOW_ENDING = -40,
  /**
   * A job to several receivers has none.
   */
  ATP_ERROR_NO_PEERS = -41,
  /**
   * The ids of the lost messages are not known: it doesn't follow that none was lost.
   */
  ATP_ERROR_LOST_UNKNOWN = -42,
  /**
   * A text is no query, or its table lacks a column.
   */
  ATP_ERROR_QUERY = -50,
  /**
   * A row of a message can't be read: it isn't CSV, lacks a column, or has a text as a number.
   */
  ATP_ERROR_ROW = -51,
  /**
   * A message or a number doesn't fit the others: more arrived than were sent, for example.
   */
  ATP_ERROR_SAMPLE = -52,
  /**
   * The messages so far have no answer: the sentence says what is missing.
   */
  ATP_ERROR_NO_ANSWER = -53,
  /**
   * An error that has no code in this version.
   */
  ATP_ERROR_OTHER = -99,
} atp_status;

/**
 * Bits of the field `flags`.
 */
typedef enum atp_flag {
  /**
   * Jobs and receivers: use no daemon.
   */
  ATP_NO_DAEMON = 1,
  /**
   * Jobs: send every message once before the job is complete.
   */
  ATP_TRY_EVERY_MESSAGE = 2,
  /**
   * Jobs: send messages in order, not the one with the minimal remaining data first (MRDF).
   */
  ATP_NO_MRDF = 4,
  /**
   * Jobs: MRDF compares messages by bytes instead of by packets.
   */
  ATP_RANK_BY_BYTES = 8,
  /**
   * Jobs: short messages don't share packets.
   */
  ATP_NO_PACKING = 16,
  /**
   * Jobs: the report names the messages that were not delivered: see atp_job_report_lost.
   */
  ATP_NAME_LOST = 32,
  /**
   * Jobs: a window may begin while the last one ends: see atp_job_next_window. At most two
   * windows are open. A receiver of a version that can't follow gets them one after the other.
   * Includes ATP_WINDOWS.
   */
  ATP_OVERLAP_WINDOWS = 64,
  /**
   * Jobs: several windows may end although every group announces its messages. Without the flag
   * such a job ends with its first window, and atp_job_end_window is ATP_ERROR_OPTIONS. Jobs in
   * which a group announces none don't need it.
   */
  ATP_WINDOWS = 128,
} atp_flag;

/**
 * What a job does with requests of its receiver: atp_receiver_request_msr and
 * atp_receiver_request_end.
 */
typedef enum atp_requests {
  /**
   * It obeys.
   */
  ATP_REQUESTS_OBEY = 0,
  /**
   * It refuses all.
   */
  ATP_REQUESTS_REFUSE = 1,
  /**
   * It obeys within the bounds of its options. A rate beyond a bound sets the bound.
   */
  ATP_REQUESTS_WITHIN = 2,
} atp_requests;

/**
 * The kind of an event. Later versions have more: free those that the program doesn't know, and
 * skip them.
 */
typedef enum atp_event_kind {
  /**
   * A complete message.
   */
  ATP_EVENT_MESSAGE = 1,
  /**
   * A window of a job has ended, and another one follows.
   */
  ATP_EVENT_WINDOW_ENDED = 2,
  /**
   * A job has ended.
   */
  ATP_EVENT_FINISHED = 3,
  /**
   * A sender has told the terms of its job, or of the job's next window.
   */
  ATP_EVENT_STARTED = 4,
  /**
   * The terms have changed.
   */
  ATP_EVENT_TERMS_CHANGED = 5,
} atp_event_kind;

/**
 * Why a job ended short.
 */
typedef enum atp_short_cause {
  /**
   * The job didn't end short.
   */
  ATP_SHORT_NONE = 0,
  /**
   * No packet came from the peer within the peer timeout.
   */
  ATP_SHORT_PEER_SILENT = 1,
  /**
   * The receiving application takes no messages.
   */
  ATP_SHORT_NOT_READING = 2,
  /**
   * The receiver refused the job: see `detail`.
   */
  ATP_SHORT_REFUSED = 3,
  /**
   * The receiver had no room for as long as the peer timeout.
   */
  ATP_SHORT_NO_ROOM = 4,
  /**
   * The receiver was restarted.
   */
  ATP_SHORT_RECEIVER_LOST_STATE = 5,
  /**
   * The path's MTU shrank below the least: see `detail`.
   */
  ATP_SHORT_PATH_NARROWED = 6,
  /**
   * This host let no packet out: see `detail`.
   */
  ATP_SHORT_CANNOT_SEND = 7,
  /**
   * The job was dropped before its end.
   */
  ATP_SHORT_ABANDONED = 8,
  /**
   * A cause that has no number in this version.
   */
  ATP_SHORT_OTHER = 99,
} atp_short_cause;

/**
 * A number of atp_action.kind. Later versions have more: skip those that the program doesn't know.
 */
typedef enum atp_action_kind {
  /**
   * Ask the sender of the stratum for a higher sampling rate: atp_receiver_request_msr.
   */
  ATP_ACTION_RAISE = 1,
  /**
   * Ask the sender of the stratum for a lower sampling rate.
   */
  ATP_ACTION_LOWER = 2,
  /**
   * Ask all senders to end, as the error is met: atp_receiver_request_end.
   */
  ATP_ACTION_END = 3,
  /**
   * Nothing to ask for. The plan looks again after `messages` messages.
   */
  ATP_ACTION_WAIT = 4,
} atp_action_kind;

/**
 * The order in which the messages of a group are sent. Of an incomplete group whose messages
 * aren't shuffled, answers have a warning. The library doesn't change the order.
 */
typedef enum atp_order {
  /**
   * The sender doesn't say.
   */
  ATP_ORDER_UNKNOWN = 0,
  /**
   * The order of the data, such as time.
   */
  ATP_ORDER_OF_DATA = 1,
  /**
   * An order without meaning.
   */
  ATP_ORDER_SHUFFLED = 2,
} atp_order;

/**
 * Why an accepted error wasn't met.
 */
typedef enum atp_plan_reason {
  /**
   * It was met.
   */
  ATP_PLAN_MET = 0,
  /**
   * The senders ended and messages are missing: begin with a higher sampling rate.
   */
  ATP_PLAN_SENDERS_ENDED = 1,
  /**
   * The answer may be 0, of which no share is an error: use error_absolute.
   */
  ATP_PLAN_NEAR_ZERO = 2,
  /**
   * Too few messages carry an answer: begin with a rate of 1, or send smaller messages.
   */
  ATP_PLAN_FEW_MESSAGES = 3,
  /**
   * The intervals are narrow enough, but a warning puts an answer in doubt.
   */
  ATP_PLAN_IN_DOUBT = 4,
  /**
   * A ratio's denominator may be 0: begin with a higher rate, or ask for the two sums.
   */
  ATP_PLAN_DENOMINATOR_NEAR_ZERO = 5,
  /**
   * A reason that has no number in this version.
   */
  ATP_PLAN_OTHER = 99,
} atp_plan_reason;

/**
 * What an answer without an interval says of all rows: it is a number of those that arrived.
 */
typedef enum atp_bound {
  /**
   * The answer has an interval, or all messages arrived.
   */
  ATP_BOUND_NONE = 0,
  /**
   * The answer of all rows is as large, or larger.
   */
  ATP_BOUND_AT_LEAST = 1,
  /**
   * The answer of all rows is as small, or smaller.
   */
  ATP_BOUND_AT_MOST = 2,
} atp_bound;

/**
 * An address and a port. Its layout never changes.
 */
typedef struct atp_address {
  /**
   * 4 or 6, for IPv4 or IPv6; 0 if there is no address.
   */
  uint16_t version;
  /**
   * The port, in the byte order of the host.
   */
  uint16_t port;
  /**
   * The scope of a link-local address of IPv6; 0 otherwise.
   */
  uint32_t scope;
  /**
   * The address in network byte order. IPv4 uses the first four bytes.
   */
  uint8_t ip[16];
} atp_address;

/**
 * The answers of a query, from atp_query_answers. Free them with atp_answers_free.
 */
typedef struct atp_answers {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The memory behind the answers, which atp_answers_free frees. 0: none.
   */
  uint64_t memory;
  /**
   * The number of rows: see atp_answers_row.
   */
  size_t rows_len;
  /**
   * Warnings about all rows together: sentences that name the remedy. Valid until
   * atp_answers_free.
   */
  const char *const *warnings;
  /**
   * The number of these warnings.
   */
  size_t warnings_len;
  /**
   * 1 if the query is a `top`. Other queries have no order of ranks.
   */
  uint32_t is_ranking;
  /**
   * 1 if the query is a `top` and the sample shows that these keys are the largest.
   */
  uint32_t separates;
  /**
   * Keys in at least this many messages have a row with a probability of at least 95 %; in
   * `top` they were counted. 0: all messages arrived. UINT64_MAX: the query has no keys, or some
   * beyond the limit, the number of messages sent isn't known, or those that arrived may be no
   * fair sample.
   */
  uint64_t keys_seen_from;
  /**
   * The query's functions, such as avg(dep_delay): atp_estimate.function is an index in them.
   * Valid until atp_answers_free.
   */
  const char *const *functions;
  /**
   * The number of the query's functions.
   */
  size_t functions_len;
  /**
   * Rows that arrived and meet the condition, but lack one of the query's numbers: functions of
   * that number leave them out.
   */
  uint64_t missing;
} atp_answers;

/**
 * An answer, and the interval that contains the true one with the query's confidence.
 */
typedef struct atp_estimate {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The row's key, in UTF-8 with a 0 at its end. Null without `by`. The values of several
   * columns have commas between them: atp_answers_key has each one. Valid until
   * atp_answers_free.
   */
  const char *key;
  /**
   * The bytes of the key, without the 0 at its end.
   */
  size_t key_len;
  /**
   * The answer, in the unit of the column.
   */
  double value;
  /**
   * The lower end. It is negative infinity if one message can't show how messages vary.
   */
  double low;
  /**
   * The upper end.
   */
  double high;
  /**
   * The share of intervals that contain the true answer, such as 0.95.
   */
  double confidence;
  /**
   * Degrees of freedom of Student's t; infinite if every message arrived.
   */
  double degrees_of_freedom;
  /**
   * Messages that arrived.
   */
  uint64_t messages;
  /**
   * Messages that were sent; 0 if that isn't known.
   */
  uint64_t messages_sent;
  /**
   * 1 if the number of messages that were sent is known.
   */
  uint32_t messages_sent_known;
  /**
   * The function of the answer: an index in atp_answers.functions.
   */
  uint32_t function;
  /**
   * Reasons to doubt the interval: sentences that name the remedy. Valid until
   * atp_answers_free.
   */
  const char *const *warnings;
  /**
   * The number of these warnings.
   */
  size_t warnings_len;
  /**
   * An atp_bound, of a minimum, a maximum or a number of different values.
   */
  uint32_t bound;
  /**
   * 0.
   */
  uint32_t reserved;
} atp_estimate;

/**
 * How a table becomes messages. Begin with ATP_INIT. A number of 0 is the default.
 */
typedef struct atp_csv_options {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The most records of a message. Default: as many as fit a packet.
   */
  uint32_t rows;
  /**
   * 1 if the records keep the order of the file: incomplete answers then have a warning. By
   * default they are shuffled, so that those that arrive are a fair sample.
   */
  uint32_t ordered;
  /**
   * The seed of shuffled records. Default: drawn.
   */
  uint64_t seed;
} atp_csv_options;

/**
 * Messages with a minimal sampling rate of their own.
 */
typedef struct atp_group {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The group's id, 0 to 255.
   */
  uint32_t group;
  /**
   * The number of messages, if it is known; 0 if not.
   */
  uint32_t messages;
  /**
   * The share of the messages that must arrive, above 0 to 1, or ATP_MSR_ZERO. At 1 the group is
   * exact: in order. Default 1.
   */
  double msr;
  /**
   * A name for people, which the receiver gets: at most 32 bytes. Null: none.
   */
  const char *name;
  /**
   * A number of atp_order: the order in which the messages are sent, for the receiver.
   */
  uint32_t order;
  /**
   * With ATP_ORDER_SHUFFLED: the messages among which each one was drawn. 0: all of them.
   */
  uint32_t shuffle_buffer;
} atp_group;

/**
 * Options of a job. A number of 0 is the default: begin with atp_job_options_init or
 * ATP_INIT.
 */
typedef struct atp_job_options {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The job's id: a decimal number, or a name. Null: the job of the process's cgroup if a daemon
   * knows one, else a random id.
   */
  const char *id;
  /**
   * The share of group 0 that must arrive, above 0 to 1, or ATP_MSR_ZERO. Default: group 0 is
   * exact, or isn't there if `groups` has others.
   */
  double msr;
  /**
   * The number of messages of group 0 (in each window), if it is known. Default: counted at the
   * end.
   */
  uint32_t messages;
  /**
   * Bits of atp_flag.
   */
  uint32_t flags;
  /**
   * The groups; the size of the first one is the distance from one to the next. Default: group 0
   * only.
   */
  const struct atp_group *groups;
  /**
   * The number of groups.
   */
  size_t groups_len;
  /**
   * How long a window, or a job without windows, may take from its first message, milliseconds.
   * If N isn't announced, the deadline takes effect at atp_job_end_window or atp_job_finish.
   * Default: no limit.
   */
  uint64_t window_deadline_ms;
  /**
   * The socket of the daemon to use. Null: the default daemon if it takes the job, else none.
   */
  const char *control_socket;
  /**
   * Without a daemon: the rate of the host's port. Default: 125,000,000 (1 Gbit/s).
   */
  uint64_t rate_max_bytes_per_s;
  /**
   * How long the receiver may be silent, milliseconds. Default: 10 s.
   */
  uint64_t peer_timeout_ms;
  /**
   * Assumed timer granularity of the hosts, microseconds. Default: 1 ms.
   */
  uint64_t timer_granularity_us;
  /**
   * Bytes of messages in the library before sending blocks. Default: 4 MiB.
   */
  uint64_t buffer_bytes;
  /**
   * Message bytes of a packet, 1 to 8,900. Default: as many as the path's MTU allows.
   */
  uint32_t payload_bytes;
  /**
   * The longest message, bytes. Default: 64 MiB.
   */
  uint32_t message_bytes_max;
  /**
   * The most packets in flight until the peer has answered; a few more are until the first
   * advice. UINT32_MAX: without limit. Default: 16.
   */
  uint32_t initial_window_packets;
  /**
   * A number of atp_order: the order of the messages of group 0. Default: unknown.
   */
  uint32_t order;
  /**
   * Without a daemon: the rate law, such as "paper" on a network with the queues of a profile.
   * Default: the law "yield".
   */
  const char *law;
  /**
   * Without a daemon: rules of the law that are off, divided by commas. Null: none.
   */
  const char *rules_off;
  /**
   * A number of atp_requests. The next three fields count with ATP_REQUESTS_WITHIN only.
   * Default: obey.
   */
  uint32_t requests;
  /**
   * 1 if a request may end the job.
   */
  uint32_t requests_may_end;
  /**
   * The lowest sampling rate that a request may set, 0 to 1.
   */
  double requests_msr_min;
  /**
   * The highest sampling rate that a request may set, above 0 to 1, or ATP_MSR_ZERO. Default 1.
   */
  double requests_msr_max;
} atp_job_options;

/**
 * A job: messages to one receiver, of which a share must arrive. It may end windows before its own
 * end: see atp_job_end_window. Free it with atp_job_free.
 */
typedef struct atp_job {
  /**
   * 0 is no job. Numbers aren't used twice.
   */
  uint64_t handle;
} atp_job;

/**
 * The outcome of a job, or of a window. A window has its number, `complete` and its groups; its
 * other fields are 0.
 */
typedef struct atp_report {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The job's id.
   */
  uint32_t job;
  /**
   * The number of the window, or of windows that have ended in the report of a job.
   */
  uint32_t windows;
  /**
   * 1 if every group has the messages that it needs.
   */
  uint32_t complete;
  /**
   * 1 if a cancel, or the deadline of the last window, ended the job before that.
   */
  uint32_t canceled;
  /**
   * The number of groups: see atp_job_report_group.
   */
  size_t groups_len;
  /**
   * The number of samples: see atp_job_report_sample.
   */
  size_t samples_len;
  /**
   * Seconds from the first message to the confirmed end.
   */
  double elapsed_s;
  /**
   * Packets with data sent, retransmissions included.
   */
  uint64_t packets_sent;
  /**
   * Packets with data retransmitted.
   */
  uint64_t packets_retransmitted;
  /**
   * Messages that shared a packet, once for each time that they were sent.
   */
  uint64_t messages_packed;
  /**
   * Packets with data that reached the receiving library.
   */
  uint64_t packets_arrived;
  /**
   * Packets that the receiver had no room for at first.
   */
  uint64_t refusals;
  /**
   * Message bytes sent, retransmissions included.
   */
  uint64_t bytes_sent;
  /**
   * "ebpf" or "userspace".
   */
  char datapath[16];
  /**
   * "fq", "htb" or "userspace".
   */
  char pacing[16];
  /**
   * Requests of the receiver that the job has handled, obeyed or not.
   */
  uint64_t requests;
  /**
   * 1 if the job ended because the receiver asked for it. Its groups then need no message.
   */
  uint32_t ended_by_receiver;
  /**
   * Windows that yielded less to exact traffic, because they would have missed their deadlines.
   */
  uint32_t windows_hurried;
} atp_report;

/**
 * The outcome of one group.
 */
typedef struct atp_group_report {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The group's id.
   */
  uint32_t group;
  /**
   * N, the number of messages.
   */
  uint32_t messages;
  /**
   * Messages known to be delivered.
   */
  uint32_t delivered;
  /**
   * The messages that must be delivered: ceil(MSR * N).
   */
  uint32_t needed;
  /**
   * Messages not delivered.
   */
  uint32_t lost;
  /**
   * 1 if the ids of the messages not delivered are known: see atp_job_report_lost.
   */
  uint32_t lost_known;
  /**
   * The minimal sampling rate that was agreed last.
   */
  double msr;
} atp_group_report;

/**
 * Ids from `start` to before `end`. Its layout never changes.
 */
typedef struct atp_range {
  /**
   * The first id.
   */
  uint32_t start;
  /**
   * The id after the last.
   */
  uint32_t end;
} atp_range;

/**
 * The state of a group's lane at one moment.
 */
typedef struct atp_sample {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * Seconds since the job was opened.
   */
  double at_s;
  /**
   * The target loss rate, 0 to 1.
   */
  double tlr;
  /**
   * The loss of the last evaluated epoch, 0 to 1.
   */
  double loss;
  /**
   * The smoothed round-trip time, microseconds; NaN before the first measurement.
   */
  double rtt_us;
  /**
   * The lane's rate.
   */
  uint64_t rate_bytes_per_s;
  /**
   * The group's id.
   */
  uint32_t group;
  /**
   * The lane's queue in the switches, 0 to 7.
   */
  uint32_t queue;
} atp_sample;

/**
 * Why a job ended short. The groups that are short are those of its report that have fewer
 * messages than they need.
 */
typedef struct atp_shortfall {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * A number of atp_short_cause.
   */
  uint32_t cause;
  /**
   * The number of the refusal (protocol/end.md; 0 if unknown), the path's MTU in bytes, or the
   * error number of the kernel; 0 for other causes.
   */
  uint32_t detail;
  /**
   * For how long the peer was silent, read nothing or had no room.
   */
  double silence_s;
  /**
   * 1 if the peer's host said that nothing listens on the port.
   */
  uint32_t port_unreachable;
  /**
   * 1 if a router said that the peer's host is unreachable.
   */
  uint32_t host_unreachable;
} atp_shortfall;

/**
 * An event, from atp_receiver_recv. Free it with atp_event_free.
 */
typedef struct atp_event {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The memory behind the event, which atp_event_free frees. 0: none.
   */
  uint64_t memory;
  /**
   * A number of atp_event_kind.
   */
  uint32_t kind;
  /**
   * The job's id.
   */
  uint32_t job;
  /**
   * The sender's address.
   */
  struct atp_address source;
  /**
   * The window, counted from 0; 0 for a job without windows.
   */
  uint32_t window;
  /**
   * A message's group.
   */
  uint32_t group;
  /**
   * A message's id, counted from 0 in each group and window.
   */
  uint32_t message;
  /**
   * At an end: 1 if every group has the messages that it needs.
   */
  uint32_t complete;
  /**
   * A message's bytes, valid until atp_event_free.
   */
  const void *data;
  /**
   * The number of bytes.
   */
  size_t len;
  /**
   * At an end: N, the number of messages of all groups. 0 for other events: atp_event_terms has
   * the N that terms announce for each group.
   */
  uint32_t messages;
  /**
   * At an end: messages delivered, of all groups.
   */
  uint32_t delivered;
  /**
   * The number of groups. At an end, atp_event_group reads them; of terms, atp_event_terms.
   */
  size_t groups_len;
  /**
   * The run of the job, a number from 1 on that the receiver gives to no other run. Only the
   * number tells a sender from a restarted one, and from a host that forges its address and job.
   */
  uint64_t run;
} atp_event;

/**
 * The outcome of one group of a job or window, at the receiver.
 */
typedef struct atp_group_summary {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The group's id.
   */
  uint32_t group;
  /**
   * N, the number of messages.
   */
  uint32_t messages;
  /**
   * ceil(MSR * N), as stated by the sender.
   */
  uint32_t needed;
  /**
   * Messages delivered.
   */
  uint32_t delivered;
  /**
   * The ids of the messages that were not delivered, in ascending order. Valid until
   * atp_event_free.
   */
  const struct atp_range *lost;
  /**
   * The number of ranges.
   */
  size_t lost_len;
} atp_group_summary;

/**
 * The terms of one group of a job or window.
 */
typedef struct atp_group_terms {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The group's id.
   */
  uint32_t group;
  /**
   * 1 if its messages are delivered in order, and all of them.
   */
  uint32_t exact;
  /**
   * 1 if the sender knows N already.
   */
  uint32_t messages_known;
  /**
   * N, the number of messages; 0 if it isn't known.
   */
  uint32_t messages;
  /**
   * The minimal sampling rate, 0 to 1.
   */
  double msr;
  /**
   * The group's name, which may be empty. Valid until atp_event_free.
   */
  const char *name;
  /**
   * A number of atp_order, as the sender states it.
   */
  uint32_t order;
  /**
   * With ATP_ORDER_SHUFFLED: the messages among which each one was drawn. 0: all of them.
   */
  uint32_t shuffle_buffer;
  /**
   * 1 if short messages come first and the messages differ in length: no fair sample arrives.
   */
  uint32_t shortest_first;
  /**
   * 0.
   */
  uint32_t reserved;
} atp_group_terms;

/**
 * Bytes of the caller.
 */
typedef struct atp_bytes {
  /**
   * May be null if there are no bytes.
   */
  const void *data;
  /**
   * The number of bytes.
   */
  size_t len;
} atp_bytes;
#define atp_bytes_EMPTY (atp_bytes){ .data = (null){  }, .len = 0 }

/**
 * Gives the memory of a message back to the caller: the context and the bytes of the call that
 * sent it.
 *
 * The library calls it once, in the call or in a thread of the library. It must return soon, must
 * not throw, and can't call libatp, which returns ATP_ERROR_CALLBACK there. It must not wait for a
 * lock that another thread holds during a call of the same job: that call may wait for this one.
 */
typedef void (*atp_release)(void *context, const void *data, size_t len);

/**
 * A job's progress.
 */
typedef struct atp_progress {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * Messages accepted for sending, of all groups and windows.
   */
  uint64_t messages;
  /**
   * The sum of the rates of all groups.
   */
  uint64_t rate_bytes_per_s;
  /**
   * Packets with data sent, retransmissions included.
   */
  uint64_t packets_sent;
  /**
   * Messages known to be delivered, of all groups of the current window.
   */
  uint32_t delivered;
  /**
   * 1 if the job, or the current window, needs no more messages: further ones are dropped.
   */
  uint32_t complete;
} atp_progress;

/**
 * Options of a receiver. A number of 0 is the default: begin with atp_receiver_options_init or
 * ATP_INIT.
 */
typedef struct atp_receiver_options {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The jobs to accept, as decimal numbers or names.
   */
  const char *const *jobs;
  /**
   * The number of `jobs`. 0: any job.
   */
  size_t jobs_len;
  /**
   * The addresses of senders to accept, without ports.
   */
  const char *const *peers;
  /**
   * The number of `peers`. 0: any address.
   */
  size_t peers_len;
  /**
   * The socket of the daemon to use. Null: the default daemon, if it runs.
   */
  const char *control_socket;
  /**
   * Bits of atp_flag.
   */
  uint32_t flags;
  /**
   * The most senders at once. Default 256.
   */
  uint32_t sources_max;
  /**
   * The longest message, bytes. Default 64 MiB.
   */
  uint32_t message_bytes_max;
  /**
   * Without a daemon, on a network with priority queues: the packets that each approximate queue
   * holds at the switch's port to this host; the profile `default` has 96. Default 0: one queue.
   */
  uint32_t queue_depth_packets;
  /**
   * Bytes of incomplete messages of each sender. Default 64 MiB.
   */
  uint64_t incomplete_bytes_max;
  /**
   * Bytes of incomplete and waiting messages of all senders. Default 256 MiB.
   */
  uint64_t memory_bytes_max;
  /**
   * Bytes of complete messages that wait for the application. Default 64 MiB.
   */
  uint64_t buffer_bytes;
  /**
   * How long closing waits for a sender that may not know of its job's end. Default 2,000.
   */
  uint64_t linger_ms;
  /**
   * Without a daemon: the rate of this host's line, bytes per second on the wire, of which
   * senders are advised their share. Default: unknown, and no advice.
   */
  uint64_t line_rate_bytes_per_s;
} atp_receiver_options;

/**
 * Options of a query. Begin with ATP_INIT. A number of 0 is the default.
 */
typedef struct atp_query_options {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The share of intervals that contain the true answer, above 0 and below 1. Default 0.95.
   */
  double confidence;
  /**
   * The accepted error, as a share of the answer, such as 0.05: the distance to the farther end
   * of its interval. With `by` each key has to meet it, and so has each function but min, max
   * and count(distinct), which have no interval. The query then plans requests to the senders:
   * see atp_query_next_action. Default: no plan.
   */
  double error_relative;
  /**
   * The accepted error in the unit of the answer. Only one of the two may be set.
   */
  double error_absolute;
  /**
   * With an accepted error: the number of sources to await. Before atp_query_source_started,
   * atp_query_source_known or atp_query_source_ended has named so many, the plan doesn't look at
   * the answers, and so asks for no end. 0: it may end when the first source's messages suffice.
   */
  uint32_t sources;
  /**
   * With an accepted error: 1 if the plan ends also while a warning puts an answer in doubt. By
   * default it then continues up to the senders' own rates. In both cases the error isn't
   * met.
   */
  uint32_t end_in_doubt;
} atp_query_options;

/**
 * A query of a table whose rows arrive as CSV, some of them perhaps never. Free it with
 * atp_query_free.
 *
 * Messages are counted by stratum: the part of a job that one sender sends in one group (and
 * window), under a number of the program's choice.
 */
typedef struct atp_query {
  /**
   * 0 is no query. Numbers aren't used twice.
   */
  uint64_t handle;
} atp_query;

/**
 * How the messages of a stratum were sent, and which of them are missing. An incomplete stratum
 * whose messages aren't known to be shuffled has a warning. Begin with ATP_INIT.
 */
typedef struct atp_delivery {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * A number of atp_order, as atp_group_terms has it.
   */
  uint32_t order;
  /**
   * With ATP_ORDER_SHUFFLED: the messages among which each one was drawn. 0: all of them.
   */
  uint32_t shuffle_buffer;
  /**
   * 1 if the sender preferred short messages and they differ in length: see atp_group_terms.
   */
  uint32_t shortest_first;
  /**
   * 1 if the job or window has ended, and `lost` has what is missing.
   */
  uint32_t has_ended;
  /**
   * The ids that didn't arrive, in ascending order, as atp_group_summary has them.
   */
  const struct atp_range *lost;
  /**
   * The number of ranges.
   */
  size_t lost_len;
} atp_delivery;

/**
 * A step of the plan for an accepted error.
 */
typedef struct atp_action {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * A number of atp_action_kind.
   */
  uint32_t kind;
  /**
   * The stratum of ATP_ACTION_RAISE and ATP_ACTION_LOWER.
   */
  uint32_t stratum;
  /**
   * The new sampling rate of that stratum, 0 to 1.
   */
  double msr;
  /**
   * With ATP_ACTION_WAIT: messages of all strata that must have arrived.
   */
  uint64_t messages;
} atp_action;

/**
 * The end of a plan for an accepted error.
 */
typedef struct atp_plan_report {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * 1 if each row of the query had an interval as narrow as accepted when the plan ended. Keys
   * that arrive after that have no part in it.
   */
  uint32_t met;
  /**
   * A number of atp_plan_reason.
   */
  uint32_t reason;
  /**
   * The largest error of the rows, in the form of the accepted one: a share, or in the unit
   * of the answer.
   */
  double reached;
  /**
   * With ATP_PLAN_SENDERS_ENDED: messages that are missing, if `messages_missing_known`.
   */
  uint64_t messages_missing;
  /**
   * How often the plan looked at the answers.
   */
  uint32_t looks;
  /**
   * 1 if the number of messages that are missing is known: every sender has told its own.
   */
  uint32_t messages_missing_known;
} atp_plan_report;

/**
 * A receiver of messages of any number of jobs, at one UDP port. Close it with
 * atp_receiver_close.
 */
typedef struct atp_receiver {
  /**
   * 0 is no receiver. Numbers aren't used twice.
   */
  uint64_t handle;
} atp_receiver;

/**
 * Counters of a receiver, since its start.
 */
typedef struct atp_receiver_stats {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * Packets with data of accepted jobs, duplicates included.
   */
  uint64_t packets_received;
  /**
   * Bytes behind their headers.
   */
  uint64_t bytes;
  /**
   * Acknowledgments sent by this process.
   */
  uint64_t acks_sent;
  /**
   * Packets refused. The fields `refused_...` divide them by reason.
   */
  uint64_t refused;
  /**
   * Complete messages.
   */
  uint64_t messages;
  /**
   * Silent senders that made room for others.
   */
  uint64_t evicted;
  /**
   * Bytes of incomplete and waiting messages and of records at present.
   */
  uint64_t memory_bytes;
  /**
   * Senders known at present.
   */
  uint32_t sources;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Not ATP's, damaged, or in contradiction to earlier packets of their message.
   */
  uint64_t refused_malformed;
  /**
   * Packets of jobs or addresses that the receiver doesn't admit.
   */
  uint64_t refused_unwanted;
  /**
   * Packets of messages or jobs beyond the receiver's limits.
   */
  uint64_t refused_too_large;
  /**
   * Beyond the limits of senders and memory. Their senders try again later.
   */
  uint64_t refused_no_room;
  /**
   * Packets of senders that were silent for too long.
   */
  uint64_t refused_forgotten;
  /**
   * Packets that mean nothing any more, or not yet: most are of jobs that have ended.
   */
  uint64_t ignored;
} atp_receiver_stats;

/**
 * The messages of one group that have arrived, of the current window of one sender's job.
 */
typedef struct atp_group_arrivals {
  /**
   * The size of the structure.
   */
  size_t struct_size;
  /**
   * The sender's address.
   */
  struct atp_address source;
  /**
   * The job's id.
   */
  uint32_t job;
  /**
   * The window, counted from 0; 0 for a job without windows.
   */
  uint32_t window;
  /**
   * The group's id.
   */
  uint32_t group;
  /**
   * Complete messages, also those that atp_receiver_recv has not returned yet.
   */
  uint32_t delivered;
  /**
   * The run of the job, as atp_event has it.
   */
  uint64_t run;
} atp_group_arrivals;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Writes an address as text, such as "10.0.0.2:4747" or "[fe80::1%2]:4747", with a 0 at its end.
 * 64 bytes suffice for every address; ATP_ERROR_ARGUMENT if `len` is too small.
 *
 * # Safety
 * `address` is null or readable; `text` is null or has `len` writable bytes.
 */
enum atp_status atp_address_text(const struct atp_address *address, char *text, size_t len);

/**
 * The row at `index`: in the order of the keys and, for each key, of the query's functions; or the
 * largest first for `top`. A function without an answer, such as a mean of no values, has no row.
 * ATP_ERROR_ARGUMENT if there is no such row.
 *
 * # Safety
 * Pointers are null or as they say.
 */
enum atp_status atp_answers_row(const struct atp_answers *answers,
                                size_t index,
                                struct atp_estimate *row);

/**
 * The value of a column of the key of the row at `index`, in the order of the query's columns, in
 * UTF-8 with a 0 at its end. Valid until atp_answers_free. ATP_ERROR_ARGUMENT if there is no such
 * row or column.
 *
 * # Safety
 * `answers` is null or as it says; other pointers are null or writable.
 */
enum atp_status atp_answers_key(const struct atp_answers *answers,
                                size_t index,
                                size_t column,
                                const char **key,
                                size_t *key_len);

/**
 * The answer over all keys of the first function, a sum, count, mean or ratio, at the confidence
 * of the rows. ATP_ERROR_NO_ANSWER for other functions.
 *
 * # Safety
 * Pointers are null or as they say.
 */
enum atp_status atp_answers_overall(const struct atp_answers *answers,
                                    struct atp_estimate *overall);

/**
 * Frees the memory behind answers, and empties them. Does nothing if they are empty. A copy of
 * freed answers gives ATP_ERROR_HANDLE.
 *
 * # Safety
 * `answers` is null or as it says.
 */
enum atp_status atp_answers_free(struct atp_answers *answers);

/**
 * Opens a job that sends a table to a receiver that answers a query of it: CSV with a header. It
 * sends whole records, in the group 0 with the sampling rate `msr` of `options`. The exact group
 * 255 has two messages: the header is message 0, and the totals for atp_query_add_totals are
 * message 1. Blocks while a name is resolved and while the buffer is full. atp_job_finish then
 * ends the job.
 *
 * In `options`, `messages`, `order` and `groups` stay unset. Messages are sent without MRDF, which
 * would deliver the short ones. `csv_options` and `options` may be null: all defaults.
 *
 * `long_records` gets the number of records with a value of several lines. A stray quote may have
 * made one of several records: check the table if it should have none. It may be null.
 *
 * ATP_ERROR_ROW if the text is no CSV, or a quote without an end hides rows. ATP_ERROR_ARGUMENT if
 * it has no header, or no record. After any error there is no job.
 *
 * # Safety
 * `csv` is null or has `len` readable bytes; other pointers are null or as they say.
 */
enum atp_status atp_job_connect_csv(const char *peer,
                                    const void *csv,
                                    size_t len,
                                    const struct atp_csv_options *csv_options,
                                    const struct atp_job_options *options,
                                    struct atp_job *job,
                                    uint64_t *long_records);

/**
 * Ends the input without waiting, neither for the receiver nor for other calls:
 * atp_job_try_outcome or atp_job_finish tells the outcome.
 */
enum atp_status atp_job_begin_finish(struct atp_job job);

/**
 * Ends the job without waiting, neither for the receiver nor for other calls:
 * atp_job_try_outcome or atp_job_cancel tells the outcome. A thread that waits in atp_job_finish
 * returns as for atp_job_cancel. ATP_ERROR_STATE once the job has ended.
 */
enum atp_status atp_job_begin_cancel(struct atp_job job);

/**
 * The outcome of a job that has ended: ATP_OK with the report, or an error as of atp_job_finish.
 * ATP_AGAIN before the end. `report` may be null.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_job_try_outcome(struct atp_job job, struct atp_report *report);

/**
 * Ends the input, and waits until the receiver confirms ceil(MSR * N) messages of every group.
 * After atp_job_end_window an empty window ends the job, and the report has the groups of that
 * window. The report has fewer messages if the deadline of the last window has passed
 * (`canceled`), or the receiver has ended the job (`ended_by_receiver`).
 *
 * ATP_ERROR_SHORT if the job ends below that; its report and atp_job_shortfall say why.
 * ATP_ERROR_ENDED if another call cancels it meanwhile: atp_job_report says what was delivered.
 * `report` may be null. The handle stays until atp_job_free.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_job_finish(struct atp_job job, struct atp_report *report);

/**
 * Ends the job now, and waits for the receiver's confirmation: for the peer timeout at most, after
 * which it is ATP_ERROR_SHORT. A call of another thread that waits for room returns
 * ATP_ERROR_ENDED at once, and atp_job_finish with this call. `report` may be null.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_job_cancel(struct atp_job job, struct atp_report *report);

/**
 * The report of a job that has ended, also below its rate; before that, of its last window.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_job_report(struct atp_job job, struct atp_report *report);

/**
 * The group at `index` of that report.
 *
 * # Safety
 * `group` is null or as it says.
 */
enum atp_status atp_job_report_group(struct atp_job job,
                                     size_t index,
                                     struct atp_group_report *group);

/**
 * Copies the ids of the messages of the group at `index` that were not delivered, as ranges in
 * ascending order: the first `len` ranges. `found` gets the number of all; 0 ranges say that every
 * message was delivered. With `len` 0 it only counts them.
 *
 * ATP_ERROR_LOST_UNKNOWN, and nothing written, if the ids aren't known: the job was opened without
 * ATP_NAME_LOST, its end isn't confirmed, or receipts didn't name all that the receiver has.
 *
 * # Safety
 * `ranges` is null or has `len` writable elements; `found` is null or writable.
 */
enum atp_status atp_job_report_lost(struct atp_job job,
                                    size_t index,
                                    struct atp_range *ranges,
                                    size_t len,
                                    size_t *found);

/**
 * The sample at `index` of that report.
 *
 * # Safety
 * `sample` is null or as it says.
 */
enum atp_status atp_job_report_sample(struct atp_job job, size_t index, struct atp_sample *sample);

/**
 * Why the job ended short; the cause ATP_SHORT_NONE if it didn't.
 *
 * # Safety
 * `shortfall` is null or as it says.
 */
enum atp_status atp_job_shortfall(struct atp_job job, struct atp_shortfall *shortfall);

/**
 * Frees the handle. A job that has not ended is abandoned: messages that were not delivered are
 * lost. A call of another thread that waits, for room or for an end, returns ATP_ERROR_ENDED at
 * once. Doesn't wait for the receiver.
 */
enum atp_status atp_job_free(struct atp_job job);

/**
 * The group at `index` of an event that ends a job or window. ATP_ERROR_ARGUMENT if there is none.
 *
 * # Safety
 * Pointers are null or as they say.
 */
enum atp_status atp_event_group(const struct atp_event *event,
                                size_t index,
                                struct atp_group_summary *summary);

/**
 * The group at `index` of an event that tells terms: ATP_EVENT_STARTED and
 * ATP_EVENT_TERMS_CHANGED. ATP_ERROR_ARGUMENT if there is none.
 *
 * # Safety
 * Pointers are null or as they say.
 */
enum atp_status atp_event_terms(const struct atp_event *event,
                                size_t index,
                                struct atp_group_terms *terms);

/**
 * Frees the memory behind an event, and empties the event. Does nothing if it is empty. A copy of
 * a freed event gives ATP_ERROR_HANDLE.
 *
 * # Safety
 * `event` is null or as it says.
 */
enum atp_status atp_event_free(struct atp_event *event);

/**
 * Opens a job to the receiver at `peer`, an address or a host name with a port. Sends nothing yet.
 * `options` may be null: all defaults. Blocks while a name is resolved.
 *
 * # Safety
 * Pointers are null or as they say, with all that they point to.
 */
enum atp_status atp_job_connect(const char *peer,
                                const struct atp_job_options *options,
                                struct atp_job *job);

/**
 * The job's id, and its datapath: "ebpf" or "userspace". Either may be null. The text is valid
 * for ever.
 *
 * # Safety
 * Pointers are null or writable.
 */
enum atp_status atp_job_id(struct atp_job job, uint32_t *id, const char **datapath);

/**
 * Queues a copy of a message. Blocks while the buffer is full. The message's id, if it is wanted,
 * counts from 0 in each group and window. The first message after atp_job_end_window begins the
 * next window. After atp_job_begin_end_window it is ATP_ERROR_WINDOW_ENDING until the window's
 * report was read; with ATP_OVERLAP_WINDOWS it blocks instead while two windows have not ended.
 *
 * Calls for this job in other threads wait for it, but for atp_job_progress and the calls that end
 * the job: after those it returns ATP_ERROR_ENDED, and its message isn't sent.
 *
 * # Safety
 * `data` is null or has `len` readable bytes; `message` is null or writable.
 */
enum atp_status atp_job_send(struct atp_job job,
                             uint32_t group,
                             const void *data,
                             size_t len,
                             uint32_t *message);

/**
 * As atp_job_send, but returns ATP_AGAIN instead of blocking. atp_job_changed_fd shows when to try
 * again.
 *
 * # Safety
 * As atp_job_send.
 */
enum atp_status atp_job_try_send(struct atp_job job,
                                 uint32_t group,
                                 const void *data,
                                 size_t len,
                                 uint32_t *message);

/**
 * Queues copies of several messages, which costs less for short ones. Blocks while the buffer is
 * full. `first` gets the first one's id; the others follow. After ATP_ERROR_TOO_LARGE no message
 * is queued; after other errors, the first ones may be.
 *
 * # Safety
 * `messages` is null or has `len` elements, each readable; `first` is null or writable.
 */
enum atp_status atp_job_send_many(struct atp_job job,
                                  uint32_t group,
                                  const struct atp_bytes *messages,
                                  size_t len,
                                  uint32_t *first);

/**
 * Queues a message without a copy. Blocks while the buffer is full. The memory must stay as it is
 * until `release` is called: once, also if this call fails, in this call or in another thread.
 * Only with ATP_ERROR_NULL for `release` and with ATP_ERROR_CALLBACK it isn't called.
 *
 * # Safety
 * `message` is readable as long as that; `id` is null or writable.
 */
enum atp_status atp_job_send_owned(struct atp_job job,
                                   uint32_t group,
                                   struct atp_bytes message,
                                   atp_release release,
                                   void *context,
                                   uint32_t *id);

/**
 * Changes the minimal sampling rate of a group, from the current window on; after
 * atp_job_end_window, from the next one on. An exact group stays exact. Once the sender has asked
 * the receiver to confirm the end, the rate can only fall. A job with announced numbers of
 * messages asks by itself.
 */
enum atp_status atp_job_set_msr(struct atp_job job, uint32_t group, double msr);

/**
 * The job's progress, at most 50 ms old, also after its end. It waits for no other call.
 *
 * # Safety
 * `progress` is null or as it says.
 */
enum atp_status atp_job_progress(struct atp_job job, struct atp_progress *progress);

/**
 * A descriptor for poll, epoll and their like. It is readable when a call that returned ATP_AGAIN
 * may do more, such as atp_job_try_send and atp_job_try_outcome. It belongs to the job: don't read
 * or close it, and don't use it after the job's end.
 *
 * # Safety
 * `fd` is null or writable.
 */
enum atp_status atp_job_changed_fd(struct atp_job job, int *fd);

/**
 * Sets the options of a job to their defaults: atp_job_options_init(&options, sizeof options).
 *
 * # Safety
 * `options` is null or has `struct_size` writable bytes.
 */
enum atp_status atp_job_options_init(struct atp_job_options *options, size_t struct_size);

/**
 * Sets the options of a receiver to their defaults:
 * atp_receiver_options_init(&options, sizeof options).
 *
 * # Safety
 * `options` is null or has `struct_size` writable bytes.
 */
enum atp_status atp_receiver_options_init(struct atp_receiver_options *options, size_t struct_size);

/**
 * Opens a query such as "avg(dep_delay) by carrier" of a table with the columns that `header`
 * names: one line of CSV. `options` may be null: all defaults.
 *
 * The functions are sum, count, avg, ratio, stddev, variance, quantile, median, min, max,
 * count(distinct) and top; all but top take `by`. In SQL, such as
 * "SELECT avg(x), count(*) WHERE y > 3 GROUP BY a, b", a query has several functions and a
 * condition.
 * ATP_ERROR_QUERY if the text is no query, the table lacks one of its columns, or an error is
 * accepted of a query without an interval.
 *
 * # Safety
 * `header` is null or has `header_len` readable bytes; other pointers are null or as they say.
 */
enum atp_status atp_query_open(const char *text,
                               const void *header,
                               size_t header_len,
                               const struct atp_query_options *options,
                               struct atp_query *query);

/**
 * Adds the rows of one message: whole lines of CSV, without a header. Missing values are empty,
 * NA, N/A, null or \N. ATP_ERROR_ROW if a row can't be read, has more values than the header, or a
 * quote without an end. ATP_ERROR_SAMPLE if a row can't be counted. The message is then left out,
 * and the query goes on.
 *
 * # Safety
 * `data` is null or has `len` readable bytes.
 */
enum atp_status atp_query_add(struct atp_query query,
                              uint32_t stratum,
                              const void *data,
                              size_t len);

/**
 * Takes the totals of a stratum's table: message 1 of the group 255 of a job that
 * atp_job_connect_csv opened. A count of all rows is then exact, and other counts and sums vary
 * less. ATP_ERROR_ROW if the message isn't totals. ATP_ERROR_SAMPLE if other totals were set. The
 * query then goes on without them.
 *
 * # Safety
 * `data` is null or has `len` readable bytes.
 */
enum atp_status atp_query_add_totals(struct atp_query query,
                                     uint32_t stratum,
                                     const void *data,
                                     size_t len);

/**
 * Sets N, the number of messages that a stratum sent: when its source starts, or at its end. Sums
 * and counts need it. A smaller N replaces an announced one. ATP_ERROR_SAMPLE if more have
 * arrived, or a smaller N was set.
 */
enum atp_status atp_query_set_messages_sent(struct atp_query query,
                                            uint32_t stratum,
                                            uint64_t messages);

/**
 * Sets how the messages of a stratum were sent, and which of them are missing: when its source
 * starts, and again at its end. ATP_ERROR_ARGUMENT if the lost ids aren't in ascending order.
 *
 * # Safety
 * `delivery` is null or as it says.
 */
enum atp_status atp_query_set_delivery(struct atp_query query,
                                       uint32_t stratum,
                                       const struct atp_delivery *delivery);

/**
 * The number of messages that were added.
 *
 * # Safety
 * `messages` is null or writable.
 */
enum atp_status atp_query_messages(struct atp_query query, uint64_t *messages);

/**
 * The answers from the messages so far: a snapshot, which later messages don't change.
 * ATP_ERROR_NO_ANSWER if no message has arrived, or a sum or count lacks an N.
 *
 * # Safety
 * `answers` is null or as it says. Answers in it must have been freed.
 */
enum atp_status atp_query_answers(struct atp_query query, struct atp_answers *answers);

/**
 * Tells the plan that a source starts, with the sampling rate that ATP_EVENT_STARTED names. Leave
 * out exact groups, which keep their rate: atp_query_source_known counts them. Their receiver can
 * only end the job.
 */
enum atp_status atp_query_source_started(struct atp_query query, uint32_t stratum, double msr);

/**
 * Counts a source among atp_query_options.sources, without requests for it: one of an exact group,
 * or one whose first message came before its start. The plan then awaits its end too.
 */
enum atp_status atp_query_source_known(struct atp_query query, uint32_t stratum);

/**
 * Tells the plan that the sender of a source has handed over its last message: its sampling rate
 * may only fall from now on.
 */
enum atp_status atp_query_source_ending(struct atp_query query, uint32_t stratum);

/**
 * Tells the plan that no message of a source will arrive any more. After the last source the plan
 * looks once more: call atp_query_next_action.
 */
enum atp_status atp_query_source_ended(struct atp_query query, uint32_t stratum);

/**
 * The plan's next step. Looks at the answers if that is due. Call it after each message and each
 * end of a source, until ATP_AGAIN.
 *
 * ATP_ERROR_NO_ANSWER if all sources ended and there is no answer.
 *
 * # Safety
 * `action` is null or as it says.
 */
enum atp_status atp_query_next_action(struct atp_query query, struct atp_action *action);

/**
 * The end of the plan: the error was met, or all sources ended. ATP_AGAIN before that.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_query_plan_report(struct atp_query query, struct atp_plan_report *report);

/**
 * Frees the handle. Answers stay until atp_answers_free.
 */
enum atp_status atp_query_free(struct atp_query query);

/**
 * Starts to receive at `local`, an address or a host name with a port. With port 0 the kernel
 * chooses one. `[::]:4747` receives over IPv4 too. `options` may be null: all defaults.
 *
 * # Safety
 * Pointers are null or as they say, with all that they point to.
 */
enum atp_status atp_receiver_bind(const char *local,
                                  const struct atp_receiver_options *options,
                                  struct atp_receiver *receiver);

/**
 * The address that the receiver is bound to, with the port that the kernel chose.
 *
 * # Safety
 * `address` is null or writable.
 */
enum atp_status atp_receiver_address(struct atp_receiver receiver, struct atp_address *address);

/**
 * Waits for the next event for up to `timeout_ms`, or without limit if that is negative. ATP_AGAIN
 * if no event came; ATP_ERROR_CLOSED if another thread closed the receiver meanwhile.
 *
 * A signal doesn't end the wait. A program that stops by a flag waits for a part of a second at a
 * time, or polls atp_receiver_readable_fd. `event` must be empty or freed.
 *
 * # Safety
 * `event` is null or as it says.
 */
enum atp_status atp_receiver_recv(struct atp_receiver receiver,
                                  struct atp_event *event,
                                  int64_t timeout_ms);

/**
 * Waits as atp_receiver_recv, and takes further events that are there, up to `len`. The size of
 * the first structure is the distance from one to the next, and sets the size of all. `received`
 * gets the number of events. Events that were there before must have been freed: the call writes
 * over them, and nobody could free their memory then.
 *
 * # Safety
 * `events` is null or has `len` structures; `received` is null or writable.
 */
enum atp_status atp_receiver_recv_batch(struct atp_receiver receiver,
                                        struct atp_event *events,
                                        size_t len,
                                        size_t *received,
                                        int64_t timeout_ms);

/**
 * A descriptor for poll, epoll and their like. It is readable when atp_receiver_recv may return
 * something at once: call it with a timeout of 0 until ATP_AGAIN, which makes it unreadable again.
 * It belongs to the receiver: don't read or close it, and don't use it after
 * atp_receiver_close.
 *
 * # Safety
 * `fd` is null or writable.
 */
enum atp_status atp_receiver_readable_fd(struct atp_receiver receiver, int *fd);

/**
 * Counters of the receiver.
 *
 * # Safety
 * `stats` is null or as it says.
 */
enum atp_status atp_receiver_get_stats(struct atp_receiver receiver,
                                       struct atp_receiver_stats *stats);

/**
 * Closes the receiver and frees its handle. Calls that wait for an event return ATP_ERROR_CLOSED.
 * Senders of unfinished jobs learn that the receiver is gone. It waits up to `linger_ms` for
 * senders that may not know of their job's end. Events that were received stay valid.
 */
enum atp_status atp_receiver_close(struct atp_receiver receiver);

/**
 * Asks the sender of a run to set the minimal sampling rate of a group of its job. The library
 * repeats the request until the sender answers: ATP_EVENT_TERMS_CHANGED says what holds then. A
 * run that is unknown or has ended is no error. The sender's options decide: see atp_requests.
 *
 * `run`: as atp_event has it.
 */
enum atp_status atp_receiver_request_msr(struct atp_receiver receiver,
                                         uint64_t run,
                                         uint32_t group,
                                         double msr);

/**
 * Asks the sender of a run to end its job now, with the messages delivered so far. Wait for
 * ATP_EVENT_FINISHED before you close the receiver.
 *
 * `run`: as atp_event has it.
 */
enum atp_status atp_receiver_request_end(struct atp_receiver receiver, uint64_t run);

/**
 * The progress of all running jobs of which a message has arrived: one structure for each group of
 * each job, in no particular order, up to `len`. The size of the first is the distance from one to
 * the next, and sets the size of all. `found` gets the number that there are, which may be larger
 * than `len`. The call waits for the receiver's thread: milliseconds, and a second at most.
 *
 * # Safety
 * `arrivals` is null or has `len` structures; `found` is null or writable.
 */
enum atp_status atp_receiver_progress(struct atp_receiver receiver,
                                      struct atp_group_arrivals *arrivals,
                                      size_t len,
                                      size_t *found);

/**
 * The sentence of the calling thread's last error: what failed, on what, what to do. Empty before
 * the first error. Valid until the thread's next error.
 */
const char *atp_last_error(void);

/**
 * The name of a code, such as "ATP_ERROR_MSR"; "unknown" for other numbers.
 */
const char *atp_status_name(int32_t status);

/**
 * The version of the library.
 */
const char *atp_version(void);

/**
 * Announces the number of messages of a group for the windows that begin after this call. The
 * first one began when the job was opened: its number is in the options.
 */
enum atp_status atp_job_set_messages(struct atp_job job, uint32_t group, uint32_t messages);

/**
 * Ends the current window, and waits for its end: every group has its messages, or the deadline
 * has passed (`complete` is 0 then, which is no error). `report` may be null. The next message
 * begins the next window. ATP_ERROR_OPTIONS if the number of messages was announced without
 * ATP_WINDOWS.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_job_end_window(struct atp_job job, struct atp_report *report);

/**
 * Ends the input of the current window without waiting for its end: atp_job_next_window or
 * atp_job_try_window is the second step. Further calls before that change nothing.
 *
 * With ATP_OVERLAP_WINDOWS messages of the next window may follow at once, and each call ends a
 * window. If nothing was sent since the last call, that window is empty, and the call waits while
 * two windows have not ended. ATP_ERROR_OPTIONS as of atp_job_end_window.
 */
enum atp_status atp_job_begin_end_window(struct atp_job job);

/**
 * As atp_job_begin_end_window, but returns ATP_AGAIN instead of waiting while two windows have not
 * ended. atp_job_changed_fd shows when to try again.
 */
enum atp_status atp_job_try_begin_end_window(struct atp_job job);

/**
 * Waits for the end of the oldest window that atp_job_begin_end_window has ended and whose
 * report was not read: ATP_OK with the report, which is that of the window. ATP_AGAIN if there is
 * no such window. `report` may be null.
 *
 * With ATP_OVERLAP_WINDOWS a program sends the next window first, and then takes this one's end.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_job_next_window(struct atp_job job, struct atp_report *report);

/**
 * As atp_job_next_window, but returns ATP_AGAIN instead of waiting. atp_job_changed_fd shows
 * when to try again.
 *
 * # Safety
 * `report` is null or as it says.
 */
enum atp_status atp_job_try_window(struct atp_job job, struct atp_report *report);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ATP_H */
