/* A plain UDP program: `datagrams receive PORT N` reads N datagrams in all ways that it knows, and
 * prints the sum of their bytes. `datagrams send PORT` sends 8 datagrams in all ways, and
 * `datagrams go-on PORT N` sends N numbers, one each 10 ms. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void receive(int fd, int wanted) {
    unsigned sum = 0;
    /* The child uses this process's memory, but its close isn't this process's. */
    if (vfork() == 0) {
        close(fd);
        _exit(0);
    }
    int copy = dup(fd), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &event) == 0, "epoll_ctl");
    for (int got = 0; got < wanted; got++) {
        unsigned char byte = 0;
        struct sockaddr_in from[3] = {0};
        socklen_t from_len = sizeof from[0];
        struct iovec part = {&byte, 1};
        struct mmsghdr many = {.msg_hdr = {&from[0], sizeof from[0], &part, 1, NULL, 0, 0}};
        struct pollfd ready = {fd, POLLIN, 0};
        switch (got % 4) {
        case 0:
            check(poll(&ready, 1, 10000) == 1, "poll");
            check(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)from, &from_len) == 1, "recvfrom");
            break;
        case 1:
            check(epoll_wait(epoll, &event, 1, 10000) == 1, "epoll_wait");
            check(recvmsg(copy, &many.msg_hdr, 0) == 1, "recvmsg");
            break;
        case 2:
            check(recvmmsg(fd, &many, 1, 0, NULL) == 1, "recvmmsg");
            break;
        default:
            check(read(fd, &byte, 1) == 1, "read");
            from[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        }
        check(from[0].sin_addr.s_addr == htonl(INADDR_LOOPBACK), "the sender's address");
        sum += byte;
    }
    printf("sum %u\n", sum);
    fflush(stdout);
    /* The senders learn what was delivered from a receiver that is there. The test ends it. */
    pause();
}

static void send_all(int fd, struct sockaddr_in *to) {
    struct iovec parts[2] = {{"\4", 1}, {"", 0}};
    struct mmsghdr many[2] = {0};
    for (int i = 0; i < 2; i++) {
        many[i].msg_hdr = (struct msghdr){to, sizeof *to, parts, 2, NULL, 0, 0};
    }
    check(sendto(fd, "\1", 1, 0, (struct sockaddr *)to, sizeof *to) == 1, "sendto");
    check(sendmsg(fd, &many[0].msg_hdr, 0) == 1, "sendmsg");
    check(sendmmsg(fd, many, 2, 0) == 2 && many[1].msg_len == 1, "sendmmsg");
    check(connect(fd, (struct sockaddr *)to, sizeof *to) == 0, "connect");
    check(send(fd, "\20", 1, 0) == 1, "send");
    check(write(fd, "\40", 1) == 1, "write");
    int copy = dup2(fd, fd + 10);
    close(fd);
    check(writev(copy, parts, 2) == 1, "writev");
    /* The child has no threads of the library's: it begins anew. */
    pid_t child = fork();
    if (child == 0) {
        check(send(copy, "\100", 1, 0) == 1, "send of a child");
        exit(0);
    }
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
}

int main(int argc, char **argv) {
    check(argc >= 3, "datagrams receive PORT N, or datagrams send PORT");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (strcmp(argv[1], "receive") == 0) {
        check(bind(fd, (struct sockaddr *)&at, sizeof at) == 0, "bind");
        puts("bound");
        fflush(stdout);
        receive(fd, atoi(argv[3]));
        return 0;
    }
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (strcmp(argv[1], "send") == 0) {
        send_all(fd, &at);
        return 0;
    }
    for (int number = 0; number < atoi(argv[3]); number++) {
        check(sendto(fd, &number, 4, 0, (struct sockaddr *)&at, sizeof at) == 4, "sendto");
        usleep(10000);
    }
    return 0;
}
