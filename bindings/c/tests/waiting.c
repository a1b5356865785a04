/* Windows that overlap, and threads that wait in a call while others end their job. */

#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A port on which nobody answers. */
static int bind_silent(char address[64]) {
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof local;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&local, len) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&local, &len) == 0);
    snprintf(address, 64, "127.0.0.1:%u", (unsigned)ntohs(local.sin_port));
    return fd;
}

/* No window ends. With the flag, a second one is open beside the first. */
static void two_windows_open(void) {
    char address[64];
    int silent = bind_silent(address);
    for (uint32_t windows = 1; windows <= 2; windows++) {
        atp_job_options options = loopback_options();
        options.flags |= windows == 2 ? ATP_OVERLAP_WINDOWS : 0;
        atp_job job;
        CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
        for (uint32_t window = 0; window < windows; window++) {
            uint32_t id = 7;
            CHECK(atp_job_try_send(job, 0, "a", 1, &id) == ATP_OK && id == 0);
            CHECK(atp_job_begin_end_window(job) == ATP_OK);
            CHECK(atp_job_try_window(job, NULL) == ATP_AGAIN);
        }
        atp_status full = windows == 2 ? ATP_AGAIN : ATP_ERROR_WINDOW_ENDING;
        CHECK(atp_job_try_send(job, 0, "a", 1, NULL) == full);
        atp_status ended = windows == 2 ? ATP_AGAIN : ATP_OK;
        CHECK(atp_job_try_begin_end_window(job) == ended);
        CHECK(atp_job_free(job) == ATP_OK);
    }
    close(silent);
}

/* Each window's end is taken after the next was sent. */
static void overlapping_windows(void) {
    enum { WINDOWS = 10, IN_WINDOW = 40 };
    char address[64];
    atp_receiver receiver = bind_loopback(address);
    atp_job_options options = loopback_options();
    options.flags |= ATP_OVERLAP_WINDOWS;
    options.msr = 0.5;
    atp_job job;
    CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
    atp_report report;
    ATP_INIT(&report);
    CHECK(atp_job_next_window(job, &report) == ATP_AGAIN);
    for (uint32_t window = 0; window < WINDOWS; window++) {
        for (uint32_t i = 0; i < IN_WINDOW; i++) {
            uint32_t id = 0;
            CHECK(atp_job_send(job, 0, &window, sizeof window, &id) == ATP_OK && id == i);
        }
        CHECK(atp_job_begin_end_window(job) == ATP_OK);
        if (window > 0) {
            CHECK(atp_job_next_window(job, &report) == ATP_OK);
            CHECK(report.windows == window - 1 && report.complete == 1);
        }
    }
    int fd = -1;
    CHECK(atp_job_changed_fd(job, &fd) == ATP_OK);
    while (atp_job_try_window(job, &report) == ATP_AGAIN) {
        struct pollfd changed = {.fd = fd, .events = POLLIN};
        CHECK(poll(&changed, 1, 5000) == 1);
    }
    CHECK(report.windows == WINDOWS - 1);
    atp_group_report group;
    ATP_INIT(&group);
    CHECK(atp_job_report_group(job, 0, &group) == ATP_OK);
    CHECK(group.messages == IN_WINDOW && group.delivered >= IN_WINDOW / 2);
    CHECK(atp_job_begin_finish(job) == ATP_OK);
    while (atp_job_try_outcome(job, &report) == ATP_AGAIN) {
        struct pollfd changed = {.fd = fd, .events = POLLIN};
        CHECK(poll(&changed, 1, 5000) == 1);
    }
    CHECK(report.windows == WINDOWS + 1);
    uint32_t ended = 0;
    for (int finished = 0; !finished;) {
        atp_event event;
        ATP_INIT(&event);
        CHECK(atp_receiver_recv(receiver, &event, 5000) == ATP_OK);
        if (event.kind == ATP_EVENT_MESSAGE) {
            CHECK(memcmp(event.data, &event.window, sizeof event.window) == 0);
        } else if (event.kind == ATP_EVENT_WINDOW_ENDED) {
            CHECK(event.window == ended && event.delivered >= IN_WINDOW / 2);
            ended++;
        }
        finished = event.kind == ATP_EVENT_FINISHED;
        CHECK(atp_event_free(&event) == ATP_OK);
    }
    CHECK(ended == WINDOWS);
    CHECK(atp_job_free(job) == ATP_OK && atp_receiver_close(receiver) == ATP_OK);
}

static void *fill(void *job) {
    static const char bytes[1000];
    atp_status status;
    while ((status = atp_job_send(*(atp_job *)job, 0, bytes, sizeof bytes, NULL)) == ATP_OK) {
    }
    return (void *)(intptr_t)status;
}

/* A thread waits for room that never comes: others see the progress, and can stop it. */
static void stop_a_waiting_thread(void) {
    for (int how = 0; how < 3; how++) {
        char address[64];
        int silent = bind_silent(address);
        atp_job_options options = loopback_options();
        options.peer_timeout_ms = how == 2 ? 1000 : 600000;
        options.buffer_bytes = 4096;
        atp_job job;
        CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, fill, &job) == 0);
        atp_progress progress;
        ATP_INIT(&progress);
        while (progress.messages < 4) { /* four fit */
            CHECK(atp_job_progress(job, &progress) == ATP_OK && progress.delivered == 0);
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        if (how == 0) {
            CHECK(atp_job_begin_cancel(job) == ATP_OK);
        } else if (how == 1) {
            CHECK(atp_job_free(job) == ATP_OK);
        } else { /* it waits for the receiver's confirmation */
            CHECK(atp_job_cancel(job, NULL) == ATP_ERROR_SHORT);
        }
        void *status = NULL;
        CHECK(pthread_join(thread, &status) == 0);
        CHECK((atp_status)(intptr_t)status == ATP_ERROR_ENDED);
        if (how != 1) {
            CHECK(atp_job_free(job) == ATP_OK);
        }
        close(silent);
    }
}

static void *finish(void *job) {
    return (void *)(intptr_t)atp_job_finish(*(atp_job *)job, NULL);
}

static void *end_window(void *job) {
    return (void *)(intptr_t)atp_job_end_window(*(atp_job *)job, NULL);
}

static atp_status joined(pthread_t thread) {
    void *status = NULL;
    CHECK(pthread_join(thread, &status) == 0);
    return (atp_status)(intptr_t)status;
}

static void a_moment(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* A thread waits for an end that never comes: freeing the handle ends its wait, without a peer. */
static void free_while_a_thread_waits_for_an_end(void) {
    void *(*const waits[])(void *) = {finish, end_window};
    for (int how = 0; how < 2; how++) {
        char address[64];
        int silent = bind_silent(address);
        atp_job_options options = loopback_options();
        options.peer_timeout_ms = 600000;
        atp_job job;
        CHECK(atp_job_connect(address, &options, &job) == ATP_OK);
        CHECK(atp_job_send(job, 0, "a", 1, NULL) == ATP_OK);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, waits[how], &job) == 0);
        a_moment();
        CHECK(atp_job_free(job) == ATP_OK);
        atp_status status = joined(thread);
        /* Without luck the thread has found no handle any more. */
        CHECK(status == ATP_ERROR_ENDED || status == ATP_ERROR_HANDLE);
        close(silent);
    }
}

/* A thread waits for the end of a job that would take minutes: others cancel it. */
static void cancel_while_a_thread_finishes(void) {
    enum { LONG = 200000 };
    static char bytes[LONG];
    for (int how = 0; how < 3; how++) {
        char address[64], nobody[64];
        atp_receiver receiver = bind_loopback(address);
        int silent = bind_silent(nobody);
        atp_job_options options = loopback_options();
        options.rate_max_bytes_per_s = 10000;
        options.peer_timeout_ms = how == 2 ? 1000 : 60000;
        atp_job job;
        CHECK(atp_job_connect(how == 2 ? nobody : address, &options, &job) == ATP_OK);
        for (int i = 0; i < 10; i++) {
            CHECK(atp_job_send(job, 0, bytes, LONG, NULL) == ATP_OK);
        }
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, finish, &job) == 0);
        while (atp_job_try_outcome(job, NULL) == ATP_AGAIN) { /* until the other call has the job */
            a_moment();
        }
        atp_report report;
        ATP_INIT(&report);
        if (how == 0) {
            CHECK(atp_job_cancel(job, &report) == ATP_OK);
            CHECK(report.canceled == 1 && report.complete == 0);
        } else if (how == 1) {
            CHECK(atp_job_begin_cancel(job) == ATP_OK);
        } else { /* nobody confirms */
            CHECK(atp_job_cancel(job, &report) == ATP_ERROR_SHORT && report.job == 0);
        }
        CHECK(joined(thread) == (how == 2 ? ATP_ERROR_SHORT : ATP_ERROR_ENDED));
        CHECK(atp_job_cancel(job, NULL) == ATP_ERROR_STATE);
        CHECK(atp_job_begin_cancel(job) == ATP_ERROR_STATE);
        CHECK(atp_job_report(job, &report) == ATP_OK && report.complete == 0);
        CHECK(report.canceled == (how != 2));
        CHECK(atp_job_free(job) == ATP_OK && atp_receiver_close(receiver) == ATP_OK);
        close(silent);
    }
}

int main(void) {
    alarm(300); /* a deadlock fails */
    two_windows_open();
    overlapping_windows();
    stop_a_waiting_thread();
    free_while_a_thread_waits_for_an_end();
    cancel_while_a_thread_finishes();
    puts("waiting: all checks hold");
    return 0;
}
