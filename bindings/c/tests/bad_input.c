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
#ifdef __SANITIZE_ADDRESS__
    /* A child that is forked while another thread allocates waits forever for the lock of the
     * sanitizer's allocator (gcc 12: 2 of 160 runs). */
#else
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
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
    CHECK(atp_receiver_close(receiver) == ATP_OK);
#endif
}

/* Queries: each wrong text, row and number has its error, and the query goes on. */
static void queries(void) {
    const char *header = "key,value\n";
    atp_query query = {0};
    atp_query_options options;
    ATP_INIT(&options);
#define OPEN(text, table, chosen) atp_query_open((text), (table), strlen(table), (chosen), &query)
    FAILS(atp_query_open(NULL, header, 10, NULL, &query), ATP_ERROR_NULL, "text");
    FAILS(atp_query_open("count(*)", NULL, 10, NULL, &query), ATP_ERROR_NULL, "header");
    FAILS(atp_query_open("count(*)", header, 10, NULL, NULL), ATP_ERROR_NULL, "query");
    FAILS(OPEN("avg(\xff)", header, NULL), ATP_ERROR_TEXT, "UTF-8");
    FAILS(OPEN("mode(value)", header, NULL), ATP_ERROR_QUERY, "avg");
    FAILS(OPEN("avg(speed)", header, NULL), ATP_ERROR_QUERY, "key, value");
    FAILS(OPEN("count(*)", "a\nb\n", NULL), ATP_ERROR_QUERY, "one line");
    FAILS(OPEN("count(*)", "a\xff\n", NULL), ATP_ERROR_QUERY, "UTF-8");
    options.confidence = 95;
    FAILS(OPEN("count(*)", header, &options), ATP_ERROR_ARGUMENT, "0.95");
    options.confidence = NAN;
    FAILS(OPEN("count(*)", header, &options), ATP_ERROR_ARGUMENT, "0.95");
    options.confidence = 0, options.error_relative = -1;
    FAILS(OPEN("count(*)", header, &options), ATP_ERROR_ARGUMENT, "above 0");
    options.error_relative = 0.1;
    FAILS(OPEN("max(value)", header, &options), ATP_ERROR_QUERY, "no error to accept");
    options.error_absolute = 1;
    FAILS(OPEN("count(*)", header, &options), ATP_ERROR_ARGUMENT, "one of them");
    options.struct_size = 3;
    FAILS(OPEN("count(*)", header, &options), ATP_ERROR_SIZE, "atp_query_options");
    CHECK(query.handle == 0);
    FAILS(atp_query_add(query, 0, "a,1", 3), ATP_ERROR_HANDLE, "query");

    atp_answers answers;
    atp_estimate row;
    ATP_INIT(&answers);
    ATP_INIT(&row);
    CHECK(OPEN("sum(value)", header, NULL) == ATP_OK);
    FAILS(atp_query_answers(query, &answers), ATP_ERROR_NO_ANSWER, "no message");
    FAILS(atp_query_answers(query, NULL), ATP_ERROR_NULL, "atp_answers");
    FAILS(atp_query_add(query, 0, NULL, 3), ATP_ERROR_NULL, "data");
    FAILS(atp_query_add(query, 0, "a\n", 2), ATP_ERROR_ROW, "lacks column");
    FAILS(atp_query_add(query, 0, "a,soon\n", 7), ATP_ERROR_ROW, "soon");
    FAILS(atp_query_add(query, 0, "a,\xff\n", 4), ATP_ERROR_ROW, "UTF-8");
    FAILS(atp_query_add(query, 0, "a,\"1\nb,7\n", 9), ATP_ERROR_ROW, "a quote opens a value and has no end");
    FAILS(atp_query_add(query, 0, "a,1,7\n", 6), ATP_ERROR_ROW, "3 values");
    FAILS(atp_query_add(query, 0, "a,1e99\n", 7), ATP_ERROR_SAMPLE, "1e60");
    FAILS(atp_query_add_totals(query, 0, NULL, 3), ATP_ERROR_NULL, "data");
    FAILS(atp_query_add_totals(query, 0, header, 10), ATP_ERROR_ROW, "line 1 is no fact");
    CHECK(atp_query_add_totals(query, 0, "records 1\n", 10) == ATP_OK);
    FAILS(atp_query_add_totals(query, 0, "records 2\n", 10), ATP_ERROR_SAMPLE, "exact total");
    CHECK(atp_query_add(query, 0, "a,1\n", 4) == ATP_OK);
    FAILS(atp_query_answers(query, &answers), ATP_ERROR_NO_ANSWER, "stratum 0");
    CHECK(answers.memory == 0);
    FAILS(atp_query_set_messages_sent(query, 0, 0), ATP_ERROR_SAMPLE, "1 messages of 0");
    CHECK(atp_query_set_messages_sent(query, 0, 1) == ATP_OK);
    FAILS(atp_query_add(query, 0, "a,1\n", 4), ATP_ERROR_SAMPLE, "2 messages of 1");
    atp_delivery delivery;
    ATP_INIT(&delivery);
    atp_range unordered[2] = {{4, 6}, {5, 9}};
    delivery.lost = unordered, delivery.lost_len = 2;
    FAILS(atp_query_set_delivery(query, 0, &delivery), ATP_ERROR_ARGUMENT, "ascending order");
    delivery.lost = NULL;
    FAILS(atp_query_set_delivery(query, 0, &delivery), ATP_ERROR_NULL, "lost");
    delivery.lost_len = 0, delivery.order = 3;
    FAILS(atp_query_set_delivery(query, 0, &delivery), ATP_ERROR_ARGUMENT, "an order of 3");
    FAILS(atp_query_set_delivery(query, 0, NULL), ATP_ERROR_NULL, "atp_delivery");
    CHECK(atp_query_answers(query, &answers) == ATP_OK);
    FAILS(atp_answers_row(&answers, 1, &row), ATP_ERROR_ARGUMENT, "no row 1");
    FAILS(atp_answers_row(NULL, 0, &row), ATP_ERROR_NULL, "atp_answers");
    FAILS(atp_answers_row(&answers, 0, NULL), ATP_ERROR_NULL, "atp_estimate");
    CHECK(atp_answers_row(&answers, 0, &row) == ATP_OK && row.value == 1);
    CHECK(atp_answers_free(&answers) == ATP_OK);
    FAILS(atp_answers_row(&answers, 0, &row), ATP_ERROR_HANDLE, "answers");

    /* Without an accepted error there is no plan. */
    atp_action action;
    atp_plan_report plan;
    ATP_INIT(&action);
    ATP_INIT(&plan);
    FAILS(atp_query_source_started(query, 0, 1), ATP_ERROR_STATE, "error_relative");
    FAILS(atp_query_source_known(query, 0), ATP_ERROR_STATE, "error_relative");
    FAILS(atp_query_next_action(query, &action), ATP_ERROR_STATE, "error_relative");
    FAILS(atp_query_plan_report(query, &plan), ATP_ERROR_STATE, "error_relative");
    FAILS(atp_query_source_started(query, 0, 2), ATP_ERROR_ARGUMENT, "0 to 1");
    FAILS(atp_query_next_action(query, NULL), ATP_ERROR_NULL, "atp_action");
    CHECK(atp_query_free(query) == ATP_OK);
    FAILS(atp_query_free(query), ATP_ERROR_HANDLE, "query");
    FAILS(atp_query_messages(query, NULL), ATP_ERROR_HANDLE, "query");

    ATP_INIT(&options);
    options.error_absolute = 2;
    CHECK(OPEN("avg(value)", header, &options) == ATP_OK);
    CHECK(atp_query_source_started(query, 1, 0.5) == ATP_OK);
    CHECK(atp_query_next_action(query, &action) == ATP_OK && action.kind == ATP_ACTION_RAISE);
    CHECK(action.stratum == 1 && action.msr == 0.9);
    CHECK(atp_query_plan_report(query, &plan) == ATP_AGAIN);
    CHECK(atp_query_source_ending(query, 1) == ATP_OK);
    CHECK(atp_query_source_ended(query, 1) == ATP_OK);
    FAILS(atp_query_next_action(query, &action), ATP_ERROR_NO_ANSWER, "no message");
    CHECK(atp_query_free(query) == ATP_OK);
}

int main(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    atp_job job = {0};
    atp_job good;
    atp_bytes bytes = {"a", 1};
    CHECK(atp_last_error()[0] == '\0');
    queries();
    options.message_bytes_max = 100;
    options.messages = 2;
    CHECK(atp_job_connect(address, &options, &good) == ATP_OK);

    /* Null pointers. */
    FAILS(atp_job_connect(NULL, NULL, &job), ATP_ERROR_NULL, "peer");
    FAILS(atp_job_connect(address, NULL, NULL), ATP_ERROR_NULL, "job");
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
    FAILS(atp_receiver_close((atp_receiver){good.handle}), ATP_ERROR_HANDLE, "receiver");
    FAILS(atp_job_end_window((atp_job){0}, NULL), ATP_ERROR_HANDLE, "open it first");
    ATP_INIT(&event);
    event.memory = good.handle;
    FAILS(atp_event_free(&event), ATP_ERROR_HANDLE, "event");

    /* Texts and numbers. */
    options = loopback_options();
    options.id = "\xff";
    FAILS(atp_job_connect(address, &options, &job), ATP_ERROR_TEXT, "id");
    FAILS(atp_job_connect("\xc3\x28:1", NULL, &job), ATP_ERROR_TEXT, "peer");
    FAILS(atp_job_connect("no port", NULL, &job), ATP_ERROR_NAME, "host:port");
    FAILS(atp_job_connect("[fe80::1]:9", NULL, &job), ATP_ERROR_NAME, "as in [fe80::1%eth0]:9");
    FAILS(atp_job_connect("[fe80::1%nowhere7]:9", NULL, &job), ATP_ERROR_NAME, "`ip link`");
    /* No host has it on its loopback; its interface reaches the socket. */
    FAILS(atp_job_connect("[fe80::1%lo]:9", NULL, &job), ATP_ERROR_SOCKET, "[fe80::1%");
    FAILS(atp_job_connect("127.0.0.1:0", NULL, &job), ATP_ERROR_PEER, "127.0.0.1:0");
    FAILS(atp_receiver_bind("192.0.2.1:1", NULL, &receiver), ATP_ERROR_SOCKET, "192.0.2.1:1");
    /* A job that announces its messages has one window. */
    FAILS(atp_job_end_window(good, NULL), ATP_ERROR_OPTIONS, "set the option windows");
    FAILS(atp_job_begin_end_window(good), ATP_ERROR_OPTIONS, "set the option windows");
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
    receiving.flags = ATP_NO_DAEMON | ATP_NO_MRDF;
    FAILS(atp_receiver_bind("127.0.0.1:0", &receiving, &other), ATP_ERROR_ARGUMENT, "flags 0x4");

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
    CHECK(atp_receiver_address(receiver, &nowhere) == ATP_OK);
    FAILS(atp_receiver_request_msr(receiver, 1, 0, 2), ATP_ERROR_MSR, "2");
    FAILS(atp_receiver_request_msr(receiver, 1, 256, 0.5), ATP_ERROR_ARGUMENT, "256");
    CHECK(atp_receiver_request_end(receiver, 1) == ATP_OK); /* a run that is unknown */
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
