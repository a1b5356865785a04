/* `calls PORT TCP_PORT` makes each call that the library replaces, and those around it, as server
 * and as client. It checks what a program sees, and prints a line for each case. It prints the same
 * without the library. */
#include "calls.h"

int server;
struct sockaddr_in at, tcp_at;

void check(int good, const char *what, const char *file, int line) {
    if (!good) {
        fprintf(stderr, "%s:%d: not so: %s (errno: %s)\n", file, line, what, strerror(errno));
        exit(1);
    }
}

const struct sockaddr *address(const struct sockaddr_in *of) {
    return (const struct sockaddr *)of;
}

struct sockaddr_in own_address(int fd) {
    struct sockaddr_in own = {0};
    socklen_t len = sizeof own;
    CHECK(getsockname(fd, (struct sockaddr *)&own, &len) == 0 && len == sizeof own);
    return own;
}

int same(const struct sockaddr_in *one, const struct sockaddr_in *other) {
    return one->sin_family == other->sin_family && one->sin_port == other->sin_port &&
           one->sin_addr.s_addr == other->sin_addr.s_addr;
}

int new_client(int is_connected) {
    int client = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(client >= 0);
    if (is_connected) {
        CHECK(connect(client, address(&at), sizeof at) == 0);
    }
    return client;
}

size_t unknown(size_t len) {
    static volatile size_t none = 0;
    return len + none;
}

void arrives(int from, const void *bytes, size_t len) {
    static char buffer[70000];
    struct sockaddr_in sender = {0}, expected = own_address(from);
    socklen_t sender_len = sizeof sender;
    ssize_t got = recvfrom(server, buffer, sizeof buffer, 0, (struct sockaddr *)&sender, &sender_len);
    CHECK(got == (ssize_t)len && memcmp(buffer, bytes, len) == 0);
    expected.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(sender_len == sizeof sender && same(&sender, &expected));
}

void send_byte(int client, char byte) {
    CHECK(sendto(client, &byte, 1, 0, address(&at), sizeof at) == 1);
    struct pollfd ready = {server, POLLIN, 0};
    CHECK(poll(&ready, 1, 5000) == 1 && ready.revents == POLLIN);
}

void ends_well(pid_t child) {
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void run_all(const struct named_case *cases) {
    for (; cases->name != NULL; cases++) {
        cases->run();
        /* A datagram too many is found at the case that sent it. */
        char byte;
        FAILS(recv(server, &byte, 1, MSG_DONTWAIT), EAGAIN);
        printf("%s\n", cases->name);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    alarm(100);
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tcp_at = at;
    tcp_at.sin_port = htons(atoi(argv[2]));
    server = new_client(0);
    struct timeval timeout = {5, 0};
    CHECK(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
    errno = 77;
    CHECK(bind(server, address(&at), sizeof at) == 0 && errno == 77);
    /* The first datagram waits until the library knows its peer. So later ones are messages. */
    int client = new_client(0);
    send_byte(client, 'a');
    arrives(client, "a", 1);
    run_all(sending_cases);
    run_all(receiving_cases);
    run_all(leaving_cases);
    return 0;
}
