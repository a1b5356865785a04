/* What the C programs of the tests share. */
#ifndef CHECK_H
#define CHECK_H

#include "atp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: not %s; last error: %s\n", __FILE__, __LINE__,        \
                    #condition, atp_last_error());                                        \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* A receiver on the loopback, without a daemon. Writes its address. */
static inline atp_receiver bind_loopback(char address[64]) {
    atp_receiver_options options;
    CHECK(atp_receiver_options_init(&options, sizeof options) == ATP_OK);
    options.flags = ATP_NO_DAEMON;
    options.linger_ms = 1;
    atp_receiver receiver;
    atp_address local;
    CHECK(atp_receiver_bind("127.0.0.1:0", &options, &receiver) == ATP_OK);
    CHECK(atp_receiver_address(receiver, &local) == ATP_OK);
    CHECK(local.version == 4 && local.port != 0);
    CHECK(atp_address_text(&local, address, 64) == ATP_OK);
    return receiver;
}

static inline atp_job_options loopback_options(void) {
    atp_job_options options;
    CHECK(atp_job_options_init(&options, sizeof options) == ATP_OK);
    options.flags = ATP_NO_DAEMON;
    options.peer_timeout_ms = 5000;
    return options;
}

#endif
