/* `replies serve PORT` answers each datagram at its sender's address, and `replies serve-info PORT`
 * also from the address at which it arrived. `replies ask PORT` asks it from an unconnected, a
 * connected and a bound socket, and checks that the replies come from the server. `replies repeat
 * PORT ADDRESS` asks there, and repeats questions without a reply. The question "end" ends a
 * server. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(good) check(!!(good), #good, __LINE__)

static void check(int good, const char *what, int line) {
    if (!good) {
        fprintf(stderr, "replies.c:%d: ", line);
        perror(what);
        exit(1);
    }
}

/* Answers from the address at which the question arrived. */
static void answer(int fd) {
    char bytes[2048], control[64];
    struct sockaddr_in from;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {&from, sizeof from, &part, 1, control, sizeof control, 0};
    ssize_t got = recvmsg(fd, &message, 0);
    CHECK(got >= 0);
    part.iov_len = got;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    CHECK(head != NULL && head->cmsg_type == IP_PKTINFO);
    CHECK(sendmsg(fd, &message, 0) == got);
}

/* At all addresses. Knows where a question arrived, if `has_info`. */
static void serve(int port, int has_info) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &has_info, sizeof has_info) == 0);
    puts("bound");
    fflush(stdout);
    while (has_info) {
        answer(fd);
    }
    for (;;) {
        char bytes[2048];
        struct sockaddr_storage from;
        socklen_t len = sizeof from;
        ssize_t got = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len);
        CHECK(got >= 0);
        if (got == 3 && memcmp(bytes, "end", 3) == 0) {
            exit(0);
        }
        CHECK(sendto(fd, bytes, got, 0, (struct sockaddr *)&from, len) == got);
    }
}

/* Each question has its own reply, from the server's address and port. */
static void ask(int fd, const struct sockaddr_in *server, int is_connected) {
    struct timeval timeout = {5, 0};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
    for (int number = 0; number < 20; number++) {
        char question[32], reply[32];
        struct sockaddr_in from = {0};
        socklen_t len = sizeof from;
        int size = snprintf(question, sizeof question, "question %d", number);
        if (is_connected) {
            CHECK(send(fd, question, size, 0) == size);
        } else {
            CHECK(sendto(fd, question, size, 0, (const void *)server, sizeof *server) == size);
        }
        CHECK(recvfrom(fd, reply, sizeof reply, 0, (struct sockaddr *)&from, &len) == size);
        CHECK(memcmp(question, reply, size) == 0);
        CHECK(from.sin_port == server->sin_port && from.sin_family == AF_INET);
        CHECK(from.sin_addr.s_addr == server->sin_addr.s_addr);
    }
}

/* Repeats each question until its reply comes. */
static void repeat(int fd, const struct sockaddr_in *server) {
    struct timeval timeout = {0, 300000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
    /* A reply to the router's address alone, which is the loopback too, is lost. */
    struct sockaddr_in own = {.sin_family = AF_INET};
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(fd, (const void *)&own, sizeof own) == 0);
    for (int number = 0, tries = 0; number < 20;) {
        int reply = -1;
        CHECK(tries++ < 100);
        CHECK(sendto(fd, &number, 4, 0, (const void *)server, sizeof *server) == 4);
        while (recv(fd, &reply, 4, 0) == 4 && reply != number) {
        }
        number += reply == number;
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    int port = atoi(argv[2]);
    if (strncmp(argv[1], "serve", 5) == 0) {
        serve(port, argv[1][5] != 0);
    }
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)}, own = {0};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (argc == 4) {
        CHECK(inet_pton(AF_INET, argv[3], &server.sin_addr) == 1);
        repeat(socket(AF_INET, SOCK_DGRAM, 0), &server);
        return 0;
    }
    /* The address of this host to others. A test without a network has one. */
    struct sockaddr_in outside = {.sin_family = AF_INET, .sin_port = htons(9)};
    CHECK(inet_pton(AF_INET, "192.0.2.1", &outside.sin_addr) == 1);
    int route = socket(AF_INET, SOCK_DGRAM, 0);
    if (connect(route, (struct sockaddr *)&outside, sizeof outside) == 0) {
        socklen_t len = sizeof own;
        CHECK(getsockname(route, (struct sockaddr *)&own, &len) == 0);
        server.sin_addr = own.sin_addr;
    }
    int alone = socket(AF_INET, SOCK_DGRAM, 0), connected = socket(AF_INET, SOCK_DGRAM, 0);
    int bound = socket(AF_INET, SOCK_DGRAM, 0);
    ask(alone, &server, 0);
    CHECK(connect(connected, (struct sockaddr *)&server, sizeof server) == 0);
    ask(connected, &server, 1);
    own = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = server.sin_addr};
    CHECK(bind(bound, (struct sockaddr *)&own, sizeof own) == 0);
    ask(bound, &server, 0);
    /* They have ports of their own: no reply goes astray. */
    ask(alone, &server, 0);
    ask(connected, &server, 1);
    return 0;
}
