/* Calls with which a process ends. */
#include "calls.h"

/* A child ends with this status. */
static int status_of(pid_t child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void ends(void) {
    for (int is_capital = 0; is_capital < 2; is_capital++) {
        pid_t child = fork();
        if (child == 0) {
            /* The child has a stream of its own. */
            send_byte(new_client(1), 'e');
            if (is_capital) {
                _Exit(7);
            }
            _exit(7);
        }
        char byte;
        CHECK(status_of(child) == 7);
        CHECK(recv(server, &byte, 1, 0) == 1 && byte == 'e');
        child = vfork();
        if (child == 0) {
            _exit(8);
        }
        CHECK(status_of(child) == 8);
    }
    pid_t child = fork();
    if (child == 0) {
        quick_exit(9);
    }
    CHECK(status_of(child) == 9);
}

const struct named_case leaving_cases[] = {
    {"_exit _Exit", ends},
    {NULL, NULL},
};
