/* Sends and receives over the loopback: groups, batches, memory of the caller, windows, a job that
 * ends short, a job without waiting, requests of the receiver, lost messages, and a receiver that
 * another thread closes. */

#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MESSAGES = 200, BATCH = 16 };

static atomic_int released;

static void release(void *context, const void *data, size_t len) {
    CHECK(strcmp(context, "context") == 0 && len == 1000);
    /* libatp refuses here instead of waiting for itself. */
    CHECK(atp_job_set_msr((atp_job){1}, 0, 0.5) == ATP_ERROR_CALLBACK);
    free((void *)data);
    atomic_fetch_add(&released, 1);
}

/* Receives until a job ends. Returns the number of messages; `last` keeps the end. */
static uint32_t receive(atp_receiver receiver, uint64_t *sum, atp_event *last) {
    uint32_t messages = 0;
    for (;;) {
        atp_event events[BATCH];
        size_t received = 0;
        ATP_INIT(&events[0]);
        CHECK(atp_receiver_recv_batch(receiver, events, BATCH, &received, 5000) == ATP_OK);
        CHECK(received >= 1 && received <= BATCH);
        for (size_t i = 0; i < received; i++) {
            CHECK(events[i].struct_size == sizeof events[i]);
            if (events[i].kind == ATP_EVENT_FINISHED) {
                *last = events[i];
                return messages;
            }
            if (events[i].kind == ATP_EVENT_MESSAGE) {
                for (size_t at = 0; at < events[i].len; at++) {
                    *sum += ((const unsigned char *)events[i].data)[at];
                }
                messages++;
            }
            atp_event copy = events[i];
            CHECK(atp_event_free(&events[i]) == ATP_OK && events[i].data == NULL);
            CHECK(atp_event_free(&events[i]) == ATP_OK);
            CHECK(atp_event_free(&copy) == ATP_ERROR_HANDLE);
        }
    }
}

static void groups(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_group both[2];
    for (uint32_t i = 0; i < 2; i++) {
        ATP_INIT(&both[i]);
        both[i].group = i + 1;
        both[i].msr = i == 0 ? 0.5 : 1.0;
    }
    atp_job_options options = loopback_options();
    options.id = "of a C program";
    options.groups = both;
    options.groups_len = 2;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    uint32_t id = 9;
    const char *datapath = NULL;
    CHECK(atp_job_id(job, &id, &datapath) == ATP_OK && strcmp(datapath, "userspace") == 0);
    unsigned char bytes[64];
    memset(bytes, 1, sizeof bytes);
    atp_bytes many[MESSAGES];
    for (uint32_t i = 0; i < MESSAGES; i++) {
        many[i] = (atp_bytes){bytes, i % sizeof bytes};
    }
    uint32_t first = 9;
    CHECK(atp_job_send_many(job, 2, many, MESSAGES, &first) == ATP_OK && first == 0);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        CHECK(atp_job_send(job, 1, bytes, 1, &id) == ATP_OK && id == i);
    }
    for (uint32_t i = 0; i < 10; i++) {
        void *data = malloc(1000);
        memset(data, 0, 1000);
        atp_bytes owned = {data, 1000};
        CHECK(atp_job_send_owned(job, 2, owned, release, "context", NULL) == ATP_OK);
    }
    CHECK(atp_job_set_msr(job, 1, 0.75) == ATP_OK);
    CHECK(atp_job_set_msr(job, 2, 0.75) == ATP_ERROR_MSR_REFUSED);
    atp_progress progress;
    ATP_INIT(&progress);
    CHECK(atp_job_progress(job, &progress) == ATP_OK);
    CHECK(progress.messages == 2 * MESSAGES + 10);
    atp_report report;
    ATP_INIT(&report);
    CHECK(atp_job_finish(job, &report) == ATP_OK);
    CHECK(report.complete == 1 && report.canceled == 0 && report.groups_len == 2);
    CHECK(strcmp(report.datapath, "userspace") == 0 && report.bytes_sent >= 10000);
    CHECK(atomic_load(&released) == 10);
    atp_group_report group;
    ATP_INIT(&group);
    CHECK(atp_job_report_group(job, 0, &group) == ATP_OK);
    CHECK(group.group == 1 && group.needed == MESSAGES * 3 / 4 && group.delivered >= group.needed);
    CHECK(atp_job_report_group(job, 2, &group) == ATP_ERROR_ARGUMENT);
    CHECK(atp_job_finish(job, &report) == ATP_ERROR_STATE);
    CHECK(atp_job_send(job, 1, bytes, 1, NULL) == ATP_ERROR_STATE);
    CHECK(atp_job_free(job) == ATP_OK);
    CHECK(atp_job_free(job) == ATP_ERROR_HANDLE);

    uint64_t sum = 0;
    atp_event end;
    uint32_t messages = receive(receiver, &sum, &end);
    CHECK(messages == end.delivered && end.messages == 2 * MESSAGES + 10 && end.complete == 1);
    atp_group_summary summary;
    ATP_INIT(&summary);
    CHECK(atp_event_group(&end, 0, &summary) == ATP_OK && summary.group == 1);
    uint32_t lost = 0;
    for (size_t i = 0; i < summary.lost_len; i++) {
        lost += summary.lost[i].end - summary.lost[i].start;
    }
    CHECK(lost == summary.messages - summary.delivered);
    CHECK(atp_event_group(&end, 1, &summary) == ATP_OK && summary.lost_len == 0);
    CHECK(summary.delivered == MESSAGES + 10);
    CHECK(atp_event_group(&end, 2, &summary) == ATP_ERROR_ARGUMENT);
    CHECK(atp_event_free(&end) == ATP_OK);
    atp_receiver_stats stats;
    ATP_INIT(&stats);
    CHECK(atp_receiver_get_stats(receiver, &stats) == ATP_OK && stats.messages == messages);
    CHECK(stats.refused == 0 && stats.refused_no_room == 0);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_ERROR_HANDLE);
}

static void windows(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    options.msr = 0.5;
    options.window_deadline_ms = 5000;
    options.messages = 20;
    options.flags |= ATP_WINDOWS;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    atp_report report;
    for (uint32_t window = 0; window < 3; window++) {
        CHECK(atp_job_set_messages(job, 0, 20) == ATP_OK);
        for (uint32_t i = 0; i < 20; i++) {
            CHECK(atp_job_send(job, 0, "\1\1", 2, NULL) == ATP_OK);
        }
        ATP_INIT(&report);
        CHECK(atp_job_end_window(job, &report) == ATP_OK);
        CHECK(report.windows == window && report.complete == 1 && report.groups_len == 1);
    }
    CHECK(atp_job_finish(job, &report) == ATP_OK);
    CHECK(atp_job_free(job) == ATP_OK);
    uint64_t sum = 0;
    atp_event end;
    uint32_t messages = receive(receiver, &sum, &end);
    CHECK(messages >= 30 && sum == 2 * messages);
    CHECK(atp_event_free(&end) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

static void ends_short(void) {
    char address[64];
    CHECK(atp_receiver_close(bind_loopback(address)) == ATP_OK);
    atp_job_options options = loopback_options();
    options.peer_timeout_ms = 200;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    int before = atomic_load(&released);
    void *data = calloc(1000, 1);
    atp_bytes owned = {data, 1000};
    CHECK(atp_job_send_owned(job, 0, owned, release, "context", NULL) == ATP_OK);
    CHECK(atp_job_finish(job, NULL) == ATP_ERROR_SHORT);
    CHECK(strstr(atp_last_error(), "0 of 1 needed") != NULL);
    CHECK(atomic_load(&released) == before + 1);
    atp_shortfall shortfall;
    ATP_INIT(&shortfall);
    CHECK(atp_job_shortfall(job, &shortfall) == ATP_OK);
    CHECK(shortfall.cause == ATP_SHORT_PEER_SILENT && shortfall.silence_s >= 0.19);
    CHECK(shortfall.port_unreachable == 1);
    atp_report report;
    ATP_INIT(&report);
    CHECK(atp_job_report(job, &report) == ATP_OK && report.complete == 0);
    CHECK(atp_job_free(job) == ATP_OK);
}

static void without_waiting(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    options.buffer_bytes = 1;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    int fd = -1;
    CHECK(atp_job_changed_fd(job, &fd) == ATP_OK);
    struct pollfd changed = {fd, POLLIN, 0};
    for (uint32_t sent = 0; sent < 20;) {
        atp_status status = atp_job_try_send(job, 0, "\1", 1, NULL);
        CHECK(status == ATP_OK || status == ATP_AGAIN);
        sent += status == ATP_OK;
        CHECK(status == ATP_OK || poll(&changed, 1, 5000) == 1);
    }
    CHECK(atp_job_begin_finish(job) == ATP_OK);
    CHECK(atp_job_send(job, 0, "a", 1, NULL) == ATP_ERROR_ENDED);
    atp_report report;
    ATP_INIT(&report);
    atp_status status;
    while ((status = atp_job_try_outcome(job, &report)) == ATP_AGAIN) {
        CHECK(poll(&changed, 1, 5000) == 1);
    }
    CHECK(status == ATP_OK && report.complete == 1);
    CHECK(atp_job_try_outcome(job, &report) == ATP_ERROR_STATE);
    CHECK(atp_job_free(job) == ATP_OK);

    CHECK(atp_receiver_readable_fd(receiver, &fd) == ATP_OK);
    struct pollfd readable = {fd, POLLIN, 0};
    CHECK(poll(&readable, 1, 5000) == 1);
    uint32_t messages = 0;
    for (uint32_t kind = 0; kind != ATP_EVENT_FINISHED;) {
        atp_event event;
        ATP_INIT(&event);
        status = atp_receiver_recv(receiver, &event, 0);
        CHECK(status == ATP_OK || status == ATP_AGAIN);
        if (status == ATP_AGAIN) {
            CHECK(poll(&readable, 1, 5000) == 1);
            continue;
        }
        kind = event.kind;
        messages += kind == ATP_EVENT_MESSAGE;
        CHECK(atp_event_free(&event) == ATP_OK);
    }
    CHECK(messages == 20);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

/* Waits for an event of this kind, and frees those before it. */
static atp_event wait_for(atp_receiver receiver, uint32_t kind) {
    for (;;) {
        atp_event event;
        ATP_INIT(&event);
        CHECK(atp_receiver_recv(receiver, &event, 5000) == ATP_OK);
        if (event.kind == kind) {
            return event;
        }
        CHECK(atp_event_free(&event) == ATP_OK);
    }
}

/* A job that is open, with two groups and `sent` messages of group 1, and its first terms. */
static atp_job job_to(const char *address, atp_job_options options, uint32_t sent) {
    atp_group both[2];
    for (uint32_t i = 0; i < 2; i++) {
        ATP_INIT(&both[i]);
        both[i].group = i + 1;
        both[i].msr = i == 0 ? 0.5 : 1.0;
    }
    both[0].name = "votes";
    both[1].messages = 7;
    options.id = "4";
    options.groups = both;
    options.groups_len = 2;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    for (uint32_t i = 0; i < sent; i++) {
        CHECK(atp_job_send(job, 1, "a", 1, NULL) == ATP_OK);
    }
    return job;
}

static double msr_of(const atp_event *event) {
    atp_group_terms terms;
    ATP_INIT(&terms);
    CHECK(atp_event_terms(event, 0, &terms) == ATP_OK && terms.group == 1);
    return terms.msr;
}

/* The receiver reads the terms and the progress, asks for another rate, and ends the job. */
static void requests(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    options.requests = ATP_REQUESTS_WITHIN;
    options.requests_may_end = 1;
    options.requests_msr_max = 0.75;
    atp_job job = job_to(address, options, 10);
    atp_event started = wait_for(receiver, ATP_EVENT_STARTED);
    CHECK(started.job == 4 && started.groups_len == 2 && started.messages == 0);
    atp_group_terms terms;
    ATP_INIT(&terms);
    CHECK(atp_event_terms(&started, 0, &terms) == ATP_OK);
    CHECK(terms.group == 1 && !terms.exact && !terms.messages_known && terms.msr == 0.5);
    CHECK(strcmp(terms.name, "votes") == 0);
    CHECK(atp_event_terms(&started, 1, &terms) == ATP_OK);
    CHECK(terms.group == 2 && terms.exact && terms.messages_known && terms.messages == 7);
    CHECK(terms.msr == 1.0 && terms.name[0] == '\0');
    CHECK(atp_event_terms(&started, 2, &terms) == ATP_ERROR_ARGUMENT);
    atp_group_summary summary;
    ATP_INIT(&summary);
    CHECK(atp_event_group(&started, 0, &summary) == ATP_ERROR_ARGUMENT);

    atp_group_arrivals arrivals[3];
    size_t found = 0;
    for (uint32_t waited_ms = 0; found != 1 || arrivals[0].delivered < 5; waited_ms++) {
        CHECK(waited_ms < 5000);
        ATP_INIT(&arrivals[0]);
        CHECK(atp_receiver_progress(receiver, arrivals, 3, &found) == ATP_OK && found <= 1);
        poll(NULL, 0, 1);
    }
    CHECK(arrivals[0].job == 4 && arrivals[0].group == 1 && arrivals[0].window == 0);
    CHECK(memcmp(&arrivals[0].source, &started.source, sizeof started.source) == 0);
    CHECK(arrivals[0].run == started.run && started.run > 0);

    CHECK(atp_receiver_request_msr(receiver, started.run, 1, 0.9) == ATP_OK);
    atp_event changed = wait_for(receiver, ATP_EVENT_TERMS_CHANGED);
    CHECK(msr_of(&changed) == 0.75); /* the bound */
    CHECK(atp_event_free(&changed) == ATP_OK);
    CHECK(atp_receiver_request_end(receiver, started.run) == ATP_OK);
    atp_event end = wait_for(receiver, ATP_EVENT_FINISHED);
    atp_report report;
    ATP_INIT(&report);
    CHECK(atp_job_finish(job, &report) == ATP_OK);
    CHECK(report.ended_by_receiver == 1 && report.requests == 2);
    CHECK(atp_job_free(job) == ATP_OK);
    CHECK(atp_event_free(&started) == ATP_OK && atp_event_free(&end) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

/* A job that obeys nothing keeps its rate. */
static void refused_requests(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    options.requests = ATP_REQUESTS_REFUSE;
    atp_job job = job_to(address, options, 10);
    atp_event started = wait_for(receiver, ATP_EVENT_STARTED);
    CHECK(atp_receiver_request_msr(receiver, started.run, 1, 0.9) == ATP_OK);
    atp_event changed = wait_for(receiver, ATP_EVENT_TERMS_CHANGED);
    CHECK(msr_of(&changed) == 0.5);
    CHECK(atp_event_free(&changed) == ATP_OK && atp_event_free(&started) == ATP_OK);
    atp_report report;
    ATP_INIT(&report);
    CHECK(atp_job_finish(job, &report) == ATP_OK);
    CHECK(report.ended_by_receiver == 0 && report.requests == 1);
    CHECK(atp_job_free(job) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

/* A canceled job names the messages that the receiver doesn't have. */
static void names_lost(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    options.flags |= ATP_NAME_LOST;
    options.msr = 0.0;
    options.rate_max_bytes_per_s = 100000;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    static unsigned char bytes[1000];
    for (uint32_t i = 0; i < 500; i++) {
        CHECK(atp_job_send(job, 0, bytes, sizeof bytes, NULL) == ATP_OK);
    }
    atp_event first = wait_for(receiver, ATP_EVENT_MESSAGE);
    CHECK(atp_event_free(&first) == ATP_OK);
    CHECK(atp_job_cancel(job, NULL) == ATP_OK);
    atp_group_report group;
    ATP_INIT(&group);
    CHECK(atp_job_report_group(job, 0, &group) == ATP_OK);
    CHECK(group.lost > 0 && group.lost_known == 1);
    size_t len = 0, found = 0;
    CHECK(atp_job_report_lost(job, 0, NULL, 0, &len) == ATP_OK && len > 0);
    atp_range *ranges = malloc(len * sizeof *ranges);
    CHECK(atp_job_report_lost(job, 0, ranges, len, &found) == ATP_OK && found == len);
    uint32_t lost = 0;
    for (size_t i = 0; i < found; i++) {
        lost += ranges[i].end - ranges[i].start;
    }
    CHECK(lost == group.lost && ranges[found - 1].end <= group.messages);
    free(ranges);
    CHECK(atp_job_report_lost(job, 1, NULL, 0, &found) == ATP_ERROR_ARGUMENT);
    CHECK(atp_job_free(job) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

/* Ids that aren't known are no empty list: the call fails, and writes nothing. */
static void lost_ids_that_are_not_known(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    options.msr = 0.0;
    options.rate_max_bytes_per_s = 100000;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    static unsigned char bytes[1000];
    for (uint32_t i = 0; i < 500; i++) {
        CHECK(atp_job_send(job, 0, bytes, sizeof bytes, NULL) == ATP_OK);
    }
    atp_event first = wait_for(receiver, ATP_EVENT_MESSAGE);
    CHECK(atp_event_free(&first) == ATP_OK);
    CHECK(atp_job_cancel(job, NULL) == ATP_OK);
    atp_group_report group;
    ATP_INIT(&group);
    CHECK(atp_job_report_group(job, 0, &group) == ATP_OK);
    CHECK(group.lost > 0 && group.lost_known == 0);
    atp_range range = {7, 7};
    size_t found = 7;
    CHECK(atp_job_report_lost(job, 0, &range, 1, &found) == ATP_ERROR_LOST_UNKNOWN);
    CHECK(found == 7 && range.start == 7 && range.end == 7);
    CHECK(strstr(atp_last_error(), "opened without name_lost") != NULL);
    CHECK(strcmp(atp_status_name(ATP_ERROR_LOST_UNKNOWN), "ATP_ERROR_LOST_UNKNOWN") == 0);
    CHECK(atp_job_free(job) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

/* A callback that takes a lock of the program, under which another thread sends. */
static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER;
static atomic_int pool_holder_waits;

static void release_to_pool(void *context, const void *data, size_t len) {
    (void)context, (void)data, (void)len;
    /* The other thread holds the lock until its message is sent. */
    while (!atomic_load(&pool_holder_waits)) {
        poll(NULL, 0, 1);
    }
    CHECK(pthread_mutex_lock(&pool) == 0 && pthread_mutex_unlock(&pool) == 0);
}

static void *send_under_lock(void *job) {
    CHECK(pthread_mutex_lock(&pool) == 0);
    atomic_store(&pool_holder_waits, 1);
    CHECK(atp_job_send(*(atp_job *)job, 0, "a", 1, NULL) == ATP_OK);
    CHECK(pthread_mutex_unlock(&pool) == 0);
    return NULL;
}

static void *send_refused(void *job) {
    atp_bytes owned = {"b", 1};
    CHECK(atp_job_send_owned(*(atp_job *)job, 9, owned, release_to_pool, NULL, NULL) ==
          ATP_ERROR_NO_GROUP);
    return NULL;
}

static void releases_without_a_lock(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, send_refused, &job) == 0);
    poll(NULL, 0, 20); /* the callback begins first */
    CHECK(pthread_create(&threads[1], NULL, send_under_lock, &job) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(atp_job_finish(job, NULL) == ATP_OK && atp_job_free(job) == ATP_OK);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
}

static void *wait_for_an_event(void *receiver) {
    atp_event event;
    ATP_INIT(&event);
    return (void *)(intptr_t)atp_receiver_recv(*(atp_receiver *)receiver, &event, -1);
}

static void closed_by_another_thread(void) {
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[i], NULL, wait_for_an_event, &receiver) == 0);
    }
    poll(NULL, 0, 20);
    CHECK(atp_receiver_close(receiver) == ATP_OK);
    for (int i = 0; i < 3; i++) {
        void *status = NULL;
        CHECK(pthread_join(threads[i], &status) == 0);
        /* A thread that was slow to start finds no receiver. */
        atp_status found = (atp_status)(intptr_t)status;
        CHECK(found == ATP_ERROR_CLOSED || found == ATP_ERROR_HANDLE);
    }
}

/* Zeroed options are the default: all messages must arrive. A rate of 0 has its own number. */
static void zeroed_options(void) {
    CHECK(ATP_MSR(-0.0) == ATP_MSR_ZERO && ATP_MSR(0.25) == 0.25 && ATP_MSR(-0.5) == -0.5);
    for (int i = 0; i < 4; i++) {
        char address[64];
        atp_receiver receiver = bind_loopback(address);
        atp_group of_group = {.struct_size = sizeof of_group, .group = i < 2 ? 0 : 1};
        atp_job_options options;
        ATP_INIT(&options);
        options.flags = ATP_NO_DAEMON;
        options.messages = i < 2 ? 5 : 0;
        if (i < 2) {
            options.msr = i == 1 ? ATP_MSR(0.25 * (i - 1)) : 0;
        } else {
            of_group.msr = i == 3 ? ATP_MSR_ZERO : 0;
            of_group.messages = 5;
            options.groups = &of_group, options.groups_len = 1;
        }
        atp_job job;
        CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
        for (int message = 0; message < 5; message++) {
            CHECK(atp_job_send(job, of_group.group, "a", 1, NULL) == ATP_OK);
        }
        CHECK(atp_job_finish(job, NULL) == ATP_OK);
        atp_group_report report;
        ATP_INIT(&report);
        CHECK(atp_job_report_group(job, 0, &report) == ATP_OK && report.group == of_group.group);
        CHECK(report.messages == 5 && report.needed == (i % 2 == 1 ? 0 : 5));
        CHECK(atp_job_free(job) == ATP_OK && atp_receiver_close(receiver) == ATP_OK);
    }
}

int main(void) {
    alarm(300); /* a deadlock fails */
    zeroed_options();
    groups();
    windows();
    ends_short();
    without_waiting();
    requests();
    refused_requests();
    names_lost();
    lost_ids_that_are_not_known();
    releases_without_a_lock();
    closed_by_another_thread();
    puts("transfer: all checks hold");
    return 0;
}
