/* Every wrong call gives its error and one sentence, and nothing else happens. */

#include "check.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static int released;

static void release(void *context, const void *data, size_t len) {
    (void)context, (void)data, (void)len;
    released++;
}

/* One call that must fail. */
static void fails(int line, atp_status found, atp_status expected, const char *words) {
    const char *text = atp_last_error();
    int is_sentence = strlen(text) > 10 && strchr(text, '\n') == NULL;
    if (found != expected || !is_sentence || strstr(text, words) == NULL) {
        fprintf(stderr, "line %d: %s, not %s: %s\n", line, atp_status_name(found),
                atp_status_name(expected), text);
        exit(1);
    }
}

#define FAILS(call, expected, words) fails(__LINE__, (call), (expected), (words))

/* A structure of a later version, with fields that this one doesn't have. */
struct later_options {
    atp_job_options known;
    uint64_t unknown;
};

/* A forked child has no threads for its parent's objects: calls fail, and none hangs. */
static void forks(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    atp_job job;
    atp_stream stream;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    CHECK(atp_stream_connect(address, &options, &stream) == ATP_OK);
    CHECK(atp_job_send(job, 0, "a", 1, NULL) == ATP_OK);
    atp_event event;
    ATP_INIT(&event);
    CHECK(atp_receiver_recv(receiver, &event, 5000) == ATP_OK);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60); /* a hang fails */
        FAILS(atp_job_send(job, 0, "a", 1, NULL), ATP_ERROR_FORKED, "forked");
        FAILS(atp_job_finish(job, NULL), ATP_ERROR_FORKED, "parent");
        FAILS(atp_job_free(job), ATP_ERROR_FORKED, "job");
        FAILS(atp_stream_free(stream), ATP_ERROR_FORKED, "stream");
        FAILS(atp_receiver_close(receiver), ATP_ERROR_FORKED, "receiver");
        FAILS(atp_event_free(&event), ATP_ERROR_FORKED, "event");
        /* It may open its own. */
        receiver = bind_loopback(address);
        CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
        CHECK(atp_job_send(job, 0, "a", 1, NULL) == ATP_OK);
        CHECK(atp_job_finish(job, NULL) == ATP_OK && atp_job_free(job) == ATP_OK);
        CHECK(atp_receiver_close(receiver) == ATP_OK);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(atp_event_free(&event) == ATP_OK);
    CHECK(atp_job_finish(job, NULL) == ATP_OK && atp_job_free(job) == ATP_OK);
    CHECK(atp_stream_free(stream) == ATP_OK && atp_receiver_close(receiver) == ATP_OK);
}

int main(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    atp_job job = {0};
    atp_job good;
    atp_stream stream = {0};
    atp_bytes bytes = {"a", 1};
    CHECK(atp_last_error()[0] == '\0');
    options.message_bytes_max = 100;
    options.messages = 2;
    CHECK(atp_job_connect(address, &options, &good) == ATP_OK);

    /* Null pointers. */
    FAILS(atp_job_connect(NULL, NULL, &job), ATP_ERROR_NULL, "peer");
    FAILS(atp_job_connect(address, NULL, NULL), ATP_ERROR_NULL, "job");
    FAILS(atp_stream_connect(address, NULL, NULL), ATP_ERROR_NULL, "stream");
    FAILS(atp_job_options_init(NULL, sizeof options), ATP_ERROR_NULL, "atp_job_options");
    FAILS(atp_receiver_options_init(NULL, 8), ATP_ERROR_NULL, "atp_receiver_options");
    FAILS(atp_job_send(good, 0, NULL, 1, NULL), ATP_ERROR_NULL, "data");
    FAILS(atp_job_send_many(good, 0, NULL, 1, NULL), ATP_ERROR_NULL, "messages");
    FAILS(atp_job_send_owned(good, 0, bytes, NULL, NULL, NULL), ATP_ERROR_NULL, "release");
    FAILS(atp_job_progress(good, NULL), ATP_ERROR_NULL, "atp_progress");
    FAILS(atp_job_changed_fd(good, NULL), ATP_ERROR_NULL, "fd");
    FAILS(atp_job_report(good, NULL), ATP_ERROR_NULL, "atp_report");
    FAILS(atp_receiver_bind(NULL, NULL, &receiver), ATP_ERROR_NULL, "local");
    FAILS(atp_receiver_bind("127.0.0.1:0", NULL, NULL), ATP_ERROR_NULL, "receiver");
    FAILS(atp_receiver_address(receiver, NULL), ATP_ERROR_NULL, "address");
    FAILS(atp_receiver_recv(receiver, NULL, 0), ATP_ERROR_NULL, "atp_event");
    FAILS(atp_receiver_recv_batch(receiver, NULL, 1, NULL, 0), ATP_ERROR_NULL, "received");
    FAILS(atp_receiver_readable_fd(receiver, NULL), ATP_ERROR_NULL, "fd");
    FAILS(atp_event_free(NULL), ATP_ERROR_NULL, "atp_event");
    FAILS(atp_address_text(NULL, address, 64), ATP_ERROR_NULL, "address");

    /* Sizes. */
    options.struct_size = 0;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_SIZE, "struct_size");
    options.struct_size = (size_t)-1;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_SIZE, "struct_size");
    struct later_options later = {loopback_options(), 0};
    later.known.struct_size = sizeof later;
    CHECK(atp_job_connect(address, &later.known, &job) == ATP_OK && atp_job_free(job) == ATP_OK);
    later.unknown = 1;
    FAILS(atp_job_connect(address, &later.known, &job), ATP_ERROR_SIZE, "newer libatp");
    FAILS(atp_job_options_init(&options, 7), ATP_ERROR_SIZE, "struct_size");
    atp_event event;
    ATP_INIT(&event);
    event.struct_size = 8;
    FAILS(atp_receiver_recv(receiver, &event, 0), ATP_ERROR_SIZE, "atp_event");
    atp_report report;
    memset(&report, 0, sizeof report);
    FAILS(atp_job_finish(good, &report), ATP_ERROR_SIZE, "atp_report");

    /* Handles. */
    FAILS(atp_job_send((atp_job){0}, 0, "a", 1, NULL), ATP_ERROR_HANDLE, "open it first");
    FAILS(atp_job_free((atp_job){~0ull}), ATP_ERROR_HANDLE, "freed");
    FAILS(atp_stream_free((atp_stream){good.handle}), ATP_ERROR_HANDLE, "stream");
    FAILS(atp_receiver_close((atp_receiver){good.handle}), ATP_ERROR_HANDLE, "receiver");
    FAILS(atp_stream_end_window(stream, NULL), ATP_ERROR_HANDLE, "stream");
    ATP_INIT(&event);
    event.memory = good.handle;
    FAILS(atp_event_free(&event), ATP_ERROR_HANDLE, "event");

    /* Texts and numbers. */
    options = loopback_options();
    options.id = "\xff";
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_TEXT, "id");
    FAILS(atp_job_connect("\xc3\x28:1", NULL, &job), ATP_ERROR_TEXT, "peer");
    FAILS(atp_job_connect("no port", NULL, &job), ATP_ERROR_NAME, "host:port");
    FAILS(atp_job_connect("127.0.0.1:0", NULL, &job), ATP_ERROR_PEER, "127.0.0.1:0");
    FAILS(atp_receiver_bind("192.0.2.1:1", NULL, &receiver), ATP_ERROR_SOCKET, "192.0.2.1:1");
    options = loopback_options();
    options.msr = NAN;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_MSR, "NaN");
    options.msr = -0.5;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_MSR, "-0.5");
    FAILS(atp_job_set_msr(good, 0, INFINITY), ATP_ERROR_MSR, "inf");
    FAILS(atp_job_set_msr(good, 0, 0.5), ATP_ERROR_MSR_REFUSED, "exact");
    options = loopback_options();
    options.flags |= 1u << 31;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_ARGUMENT, "flags");
    options = loopback_options();
    options.law = "chance";
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_ARGUMENT, "paper");
    options.law = "paper";
    options.rules_off = "hold-when-idle, chance";
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_ARGUMENT, "rule");
    options = loopback_options();
    options.rate_max_bytes_per_s = 1;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_RATE_MAX, "1000");
    options = loopback_options();
    options.timer_granularity_us = 1000000;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_OPTIONS, "options");
    options = loopback_options();
    options.groups_len = 1;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_NULL, "atp_group");
    atp_group group[2];
    memset(group, 0, sizeof group);
    options.groups = group;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_SIZE, "atp_group");
    ATP_INIT(&group[0]);
    group[0].group = 256;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_ARGUMENT, "256");
    ATP_INIT(&group[0]);
    group[0].name = "a name of more than thirty-two bytes";
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_GROUP_NAME, "name of group 0");
    group[0].name = "\xff";
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_TEXT, "name");
    ATP_INIT(&group[0]);
    group[1].struct_size = 4000;
    options.groups_len = 2;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_SIZE, "group 1");
    options.groups_len = 257;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_ARGUMENT, "257");
    ATP_INIT(&group[0]);
    ATP_INIT(&group[1]);
    options.groups_len = 2;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_OPTIONS, "options");
    options = loopback_options();
    options.requests = 3;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_ARGUMENT, "requests 3");
    options.requests = ATP_REQUESTS_WITHIN;
    options.requests_msr_min = 0.5;
    options.requests_msr_max = 0.25;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_REQUEST_BOUNDS, "0.25");
    options.requests_msr_max = NAN;
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_MSR, "NaN");
    options = loopback_options();
    options.flags = 0;
    options.control_socket = "/nonexistent/\xff";
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_DAEMON, "daemon");
    atp_receiver_options receiving;
    atp_receiver other;
    CHECK(atp_receiver_options_init(&receiving, sizeof receiving) == ATP_OK);
    const char *names[] = {"10.0.0.1:7", NULL};
    receiving.peers = names;
    receiving.peers_len = 1;
    FAILS(atp_receiver_bind("127.0.0.1:0", &receiving, &other), ATP_ERROR_ARGUMENT, "10.0.0.1:7");
    receiving.peers = names + 1;
    FAILS(atp_receiver_bind("127.0.0.1:0", &receiving, &other), ATP_ERROR_NULL, "peers");
    receiving.peers_len = (size_t)-1;
    FAILS(atp_receiver_bind("127.0.0.1:0", &receiving, &other), ATP_ERROR_ARGUMENT, "peers");
    receiving.peers_len = 0;
    receiving.reserved = 1;
    FAILS(atp_receiver_bind("127.0.0.1:0", &receiving, &other), ATP_ERROR_ARGUMENT, "reserved");

    /* Messages. A message that isn't taken goes back all the same. */
    char long_message[101] = {0};
    FAILS(atp_job_send(good, 0, long_message, 101, NULL), ATP_ERROR_TOO_LARGE, "101");
    FAILS(atp_job_send(good, 1, "a", 1, NULL), ATP_ERROR_NO_GROUP, "group 1");
    FAILS(atp_job_send(good, 256, "a", 1, NULL), ATP_ERROR_ARGUMENT, "256");
    FAILS(atp_job_send(good, 0, "a", (size_t)-1, NULL), ATP_ERROR_ARGUMENT, "data");
    atp_bytes no_bytes = {NULL, 5};
    FAILS(atp_job_send_many(good, 0, &no_bytes, 1, NULL), ATP_ERROR_NULL, "data");
    FAILS(atp_job_send_owned(good, 0, no_bytes, release, NULL, NULL), ATP_ERROR_NULL, "data");
    FAILS(atp_job_send_owned(good, 9, bytes, release, NULL, NULL), ATP_ERROR_NO_GROUP, "9");
    FAILS(atp_job_send_owned(job, 0, bytes, release, NULL, NULL), ATP_ERROR_HANDLE, "job");
    CHECK(released == 3);
    CHECK(atp_job_send(good, 0, NULL, 0, NULL) == ATP_OK);
    CHECK(atp_job_send(good, 0, "a", 1, NULL) == ATP_OK);
    FAILS(atp_job_send(good, 0, "a", 1, NULL), ATP_ERROR_TOO_MANY, "2 messages");

    /* Order of calls, and sizes of what is read. */
    ATP_INIT(&report);
    FAILS(atp_job_report(good, &report), ATP_ERROR_STATE, "not ended");
    CHECK(atp_job_finish(good, NULL) == ATP_OK);
    FAILS(atp_job_set_msr(good, 0, 1), ATP_ERROR_STATE, "has ended");
    FAILS(atp_job_cancel(good, NULL), ATP_ERROR_STATE, "has ended");
    atp_sample sample;
    ATP_INIT(&sample);
    FAILS(atp_job_report_sample(good, 1u << 30, &sample), ATP_ERROR_ARGUMENT, "sample");
    struct {
        size_t struct_size;
        uint32_t job, windows;
        uint64_t guard;
    } small = {16, 0, 0, 7};
    CHECK(atp_job_report(good, (atp_report *)&small) == ATP_OK);
    CHECK(small.windows == 1 && small.guard == 7);
    CHECK(atp_job_free(good) == ATP_OK);
    size_t received = 7;
    ATP_INIT(&event);
    FAILS(atp_receiver_recv_batch(receiver, &event, 0, &received, 0), ATP_ERROR_ARGUMENT, "0 event");
    CHECK(received == 7);
    atp_address nowhere = {0, 0, 0, {0}};
    FAILS(atp_address_text(&nowhere, address, 64), ATP_ERROR_ARGUMENT, "version");
    FAILS(atp_receiver_request_end(receiver, &nowhere, 1), ATP_ERROR_ARGUMENT, "version");
    CHECK(atp_receiver_address(receiver, &nowhere) == ATP_OK);
    FAILS(atp_receiver_request_msr(receiver, NULL, 1, 0, 0.5), ATP_ERROR_NULL, "source");
    FAILS(atp_receiver_request_msr(receiver, &nowhere, 1, 0, 2), ATP_ERROR_MSR, "2");
    FAILS(atp_receiver_request_msr(receiver, &nowhere, 1, 256, 0.5), ATP_ERROR_ARGUMENT, "256");
    CHECK(atp_receiver_request_end(receiver, &nowhere, 1) == ATP_OK);
    atp_group_arrivals arrivals;
    ATP_INIT(&arrivals);
    FAILS(atp_receiver_progress(receiver, &arrivals, 0, &received), ATP_ERROR_ARGUMENT, "array");
    FAILS(atp_receiver_progress(receiver, NULL, 1, &received), ATP_ERROR_NULL, "atp_group_arrivals");
    FAILS(atp_receiver_progress(receiver, &arrivals, 1, NULL), ATP_ERROR_NULL, "found");
    FAILS(atp_address_text(&nowhere, address, 3), ATP_ERROR_ARGUMENT, "64");
    CHECK(atp_receiver_close(receiver) == ATP_OK);
    FAILS(atp_receiver_recv(receiver, &event, 0), ATP_ERROR_HANDLE, "receiver");
    CHECK(strcmp(atp_status_name(-100), "unknown") == 0 && strlen(atp_version()) >= 5);
    forks();
    puts("bad_input: every wrong call has its error");
    return 0;
}
