/* A plain TCP program that ends in all ways.
 *
 * `endings write WAY PORT` connects, writes 2,000 lines of 11 bytes, and ends in a way, which is a
 * list of steps with commas between. `endings serve PORT` reads one connection after the other to
 * its end, and prints how many of these bytes came, and whether the end was a good one.
 * `endings answer WAY PORT` accepts a connection, and writes and ends likewise; `endings read PORT`
 * connects and reads. `endings write-on PORT` then writes until that fails. `endings
 * last-thread-of-udp PORT` sends and receives datagrams in a thread that is the program's last.
 * `endings write beside-full,WAY FULL_PORT PORT` also fills a connection to a server that doesn't
 * read. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES 2000
#define BYTES (LINES * 11)
#define MANY 20

static void step(const char *word);

static struct sockaddr_in at = {.sin_family = AF_INET};
static char lines[BYTES + 1];
static int fd = -1;
static FILE *stream;

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static int is(const char *word, const char *other) {
    return strcmp(word, other) == 0;
}

/* Reads to the end, and prints what it was. */
static void read_all(int from, const char *who) {
    static char bytes[BYTES + 1];
    ssize_t got = 0;
    size_t total = 0;
    while (total < sizeof bytes && (got = read(from, bytes + total, sizeof bytes - total)) > 0) {
        total += got;
    }
    const char *end = got == 0 ? "end" : got > 0 ? "too many" : strerrorname_np(errno);
    const char *same = memcmp(bytes, lines, total) == 0 ? "" : "other ";
    printf("%s%zu %sbytes, %s\n", who, total, same, end);
    fflush(stdout);
}

static void write_all(const char *from, size_t len) {
    if (stream != NULL) {
        check(fwrite(from, 1, len, stream) == len, "fwrite");
        return;
    }
    for (size_t total = 0; total < len;) {
        ssize_t done = write(fd, from + total, len - total);
        check(done > 0 || errno == EAGAIN, "write");
        total += done > 0 ? done : 0;
    }
}

static int connected(void) {
    int new = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(new, (const struct sockaddr *)&at, sizeof at) == 0, "connect");
    return new;
}

static void *wait_in_read(void *ready) {
    char byte;
    pthread_barrier_wait(ready);
    (void)!read(fd, &byte, 1);
    pause();
    return NULL;
}

static void *wait_for_good(void *none) {
    pause();
    return none;
}

static void *leave(void *none) {
    exit(0);
    return none;
}

static void leave_at_once(int signal) {
    (void)signal;
    _exit(0);
}

/* A handler ends the process, perhaps while the allocator works. */
static void leave_in_handler(int allocates) {
    struct itimerval soon = {.it_value = {.tv_usec = 2000}};
    signal(SIGALRM, leave_at_once);
    check(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    for (;;) {
        if (allocates) {
            free(realloc(malloc(10), 3000));
        } else {
            pause();
        }
    }
}

/* The child goes on, once the parent has ended. */
static void hand_to_child(void) {
    pid_t parent = getpid();
    if (fork() != 0) {
        _exit(0);
    }
    while (getppid() == parent) {
        usleep(10000);
    }
}

/* The child reads the end of the connection, once a signal has killed the parent. */
static void die_before_child(void) {
    if (fork() == 0) {
        read_all(fd, "child ");
        _exit(0);
    }
    kill(getpid(), SIGKILL);
}

static void run_child(void (*child)(void)) {
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        child();
        _exit(0);
    }
    check(waitpid(pid, &status, 0) == pid && status == 0, "the child");
}

static void close_it(void) {
    check(close(fd) == 0, "close");
}

/* Takes the rights of another user, whose processes other users can't look at. */
static void drop_rights(void) {
    check(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
}

/* The child writes the second half while the parent ends. */
static void hand_half_to_child(void) {
    int parent_ends[2];
    check(pipe(parent_ends) == 0, "pipe");
    if (fork() != 0) {
        close(parent_ends[1]);
        _exit(0);
    }
    char byte;
    close(parent_ends[1]);
    check(read(parent_ends[0], &byte, 1) == 0, "read");
    usleep(500000);
    signal(SIGPIPE, SIG_IGN);
    write_all(lines + BYTES / 2, BYTES - BYTES / 2);
    _exit(0);
}

/* A connection of the child's own: the end of the child isn't one of the parent's connection. */
static void write_own(void) {
    fd = connected();
    write_all(lines, BYTES);
}

static void drop_rights_and_write_own(void) {
    drop_rights();
    write_own();
}

static void write_second_half(void) {
    write_all(lines + BYTES / 2, BYTES - BYTES / 2);
}

static void make_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    check(pthread_create(&thread, NULL, run, argument) == 0, "pthread_create");
}

/* A program that inherits the connection, and that no `fork` of libc has started. */
static void spawn_second_half(void) {
    char command[100];
    sprintf(command, "sleep 0.3; exec seq -f 'line %%05g' %d %d >&%d", LINES / 2, LINES - 1, fd);
    check(popen(command, "r") != NULL, "popen");
}

/* Sends the connection over a Unix socket, or receives it. */
static void pass(int over, int *connection) {
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (*connection < 0) {
        check(recvmsg(over, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL, "recvmsg");
        memcpy(connection, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
        return;
    }
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), connection, sizeof(int));
    check(sendmsg(over, &message, 0) == 1, "sendmsg");
}

/* The child connects, and ends while the parent writes. */
static void receive_from_child(void) {
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    if (fork() == 0) {
        fd = connected();
        write_all(lines, BYTES / 2);
        pass(pair[1], &fd);
        step("reader");
        _exit(0);
    }
    pass(pair[0], &fd);
    usleep(300000);
    signal(SIGPIPE, SIG_IGN);
    (void)!write(fd, lines + BYTES / 2, BYTES - BYTES / 2);
    close_it();
    wait(NULL);
}

/* Takes longer than the library takes to look how many threads there are. */
static void *write_and_close(void *none) {
    usleep(300000);
    write_second_half();
    close_it();
    return none;
}

/* The thread of `main` ends, and another one goes on. */
static void end_with_last_thread(void *(*run)(void *)) {
    make_thread(run, NULL);
    pthread_exit(NULL);
}

/* The datagrams of a socket at the port come over the library, if it is there. */
static void *exchange_datagrams(void *none) {
    char byte = 'x';
    int end = socket(AF_INET, SOCK_DGRAM, 0);
    check(bind(end, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    check(sendto(end, &byte, 1, 0, (struct sockaddr *)&at, sizeof at) == 1, "sendto");
    check(recv(end, &byte, 1, 0) == 1, "recv");
    return none;
}

static void step(const char *word) {
    char *none[] = {"true", NULL};
    if (is(word, "close")) {
        close_it();
    } else if (is(word, "fclose")) {
        check(fclose(stream) == 0, "fclose");
    } else if (is(word, "shutdown")) {
        check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    } else if (is(word, "shutdown-both")) {
        check(shutdown(fd, SHUT_RDWR) == 0, "shutdown");
    } else if (is(word, "close_range")) {
        check(close_range(fd, fd, 0) == 0, "close_range");
    } else if (is(word, "closefrom")) {
        closefrom(fd);
    } else if (is(word, "dup")) {
        int copy = dup(fd);
        close_it();
        fd = copy;
    } else if (is(word, "dup2")) {
        check(dup2(STDERR_FILENO, fd) == fd, "dup2");
    } else if (is(word, "linger")) {
        struct linger how = {1, 0};
        check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof how) == 0, "SO_LINGER");
    } else if (is(word, "child-closes")) {
        run_child(close_it);
    } else if (is(word, "child-writes")) {
        run_child(write_second_half);
    } else if (is(word, "child-connects")) {
        run_child(write_own);
    } else if (is(word, "child-drops")) {
        run_child(drop_rights_and_write_own);
    } else if (is(word, "hand-half-to-child")) {
        hand_half_to_child();
    } else if (is(word, "spawn-writes")) {
        spawn_second_half();
    } else if (is(word, "last-thread")) {
        end_with_last_thread(write_and_close);
    } else if (is(word, "second-half")) {
        write_second_half();
    } else if (is(word, "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            _exit(0);
        }
        check(waitpid(child, NULL, 0) == child, "vfork");
    } else if (is(word, "wait")) {
        char byte;
        puts("waiting");
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
    } else if (is(word, "reader")) {
        pthread_barrier_t ready;
        pthread_barrier_init(&ready, NULL, 2);
        make_thread(wait_in_read, &ready);
        pthread_barrier_wait(&ready);
        usleep(20000);
    } else if (is(word, "_exit")) {
        _exit(0);
    } else if (is(word, "_Exit")) {
        _Exit(0);
    } else if (is(word, "exit_group")) {
        syscall(SYS_exit_group, 0);
    } else if (is(word, "exit_of_main")) {
        syscall(SYS_exit, 0);
    } else if (is(word, "quick_exit")) {
        quick_exit(0);
    } else if (is(word, "exit")) {
        exit(0);
    } else if (is(word, "exit-of-thread")) {
        make_thread(leave, NULL);
        wait_for_good(NULL);
    } else if (is(word, "handler")) {
        leave_in_handler(0);
    } else if (is(word, "handler-allocates")) {
        leave_in_handler(1);
    } else if (is(word, "hand-to-child")) {
        hand_to_child();
    } else if (is(word, "die-before-child")) {
        die_before_child();
    } else if (is(word, "daemon")) {
        check(daemon(1, 1) == 0, "daemon");
    } else if (is(word, "execv")) {
        execv("/bin/true", none);
    } else if (is(word, "kill")) {
        kill(getpid(), SIGKILL);
    } else if (is(word, "term")) {
        kill(getpid(), SIGTERM);
    } else if (is(word, "abort")) {
        abort();
    } else {
        check(is(word, "return"), word);
    }
}

/* Writes the lines, unless a step does a part of it, and takes the steps. */
static void write_and_end(char *way) {
    int is_half = strstr(way, "child-writes") != NULL || strstr(way, "second-half") != NULL
        || strstr(way, "hand-half") != NULL || strstr(way, "last-thread") != NULL
        || strstr(way, "spawn") != NULL;
    if (strstr(way, "stdio") != NULL) {
        stream = fdopen(fd, "w");
    }
    if (strstr(way, "nonblock") != NULL) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    write_all(lines, is_half ? BYTES / 2 : BYTES);
    for (char *word = strtok(way, ","); word != NULL; word = strtok(NULL, ",")) {
        /* The first steps describe the writing. */
        if (!is(word, "stdio") && !is(word, "nonblock")) {
            step(word);
        }
    }
}

/* Whether the way begins with a step, which is left out then. */
static int is_first(char **way, const char *word) {
    int is_so = strncmp(*way, word, strlen(word)) == 0;
    *way += is_so ? strlen(word) : 0;
    return is_so;
}

/* Fills a connection whose close waits, until there has been no room for half a second. */
static void fill_lingering(const char *port) {
    struct sockaddr_in full_at = at;
    struct linger how = {1, 1000};
    full_at.sin_port = htons(atoi(port));
    int full = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(full, (struct sockaddr *)&full_at, sizeof full_at) == 0, "connect");
    check(setsockopt(full, SOL_SOCKET, SO_LINGER, &how, sizeof how) == 0, "SO_LINGER");
    struct pollfd ready = {full, POLLOUT, 0};
    while (poll(&ready, 1, 500) == 1) {
        check(send(full, lines, BYTES, MSG_DONTWAIT) > 0 || errno == EAGAIN, "send");
    }
}

/* Closes many connections at once, and ends. */
static void write_many(void) {
    int all[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = fd = connected();
        write_all(lines, BYTES);
    }
    for (int i = 0; i < MANY; i++) {
        close(all[i]);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    check(argc >= 3, "endings HOW [WAY] PORT");
    const char *how = argv[1];
    for (int line = 0; line < LINES; line++) {
        sprintf(lines + line * 11, "line %05d\n", line);
    }
    at.sin_port = htons(atoi(argv[argc - 1]));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    /* A process that hangs is no success. */
    alarm(100);
    int listener = -1, on = 1;
    if (is(how, "serve") || is(how, "answer")) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        check(bind(listener, (struct sockaddr *)&at, sizeof at) == 0, "bind");
        check(listen(listener, MANY) == 0, "listen");
        puts("listening");
        fflush(stdout);
    }
    if (is(how, "last-thread-of-udp")) {
        end_with_last_thread(exchange_datagrams);
    } else if (is(how, "read")) {
        read_all(connected(), "");
        return 0;
    } else if (is(how, "write-on")) {
        fd = connected();
        read_all(fd, "");
        signal(SIGPIPE, SIG_IGN);
        while (write(fd, lines, 11) == 11) {
            usleep(10000);
        }
        puts(strerrorname_np(errno));
        return 0;
    } else if (is(how, "serve")) {
        for (;;) {
            alarm(100);
            fd = accept(listener, NULL, NULL);
            check(fd >= 0, "accept");
            read_all(fd, "");
            close(fd);
        }
    } else if (is(how, "answer")) {
        fd = accept(listener, NULL, NULL);
        check(fd >= 0, "accept");
        write_and_end(argv[2]);
        return 0;
    }
    char *way = argv[2];
    if (is_first(&way, "double-fork,")) {
        if (fork() != 0) {
            return 0;
        }
        if (fork() != 0) {
            _exit(0);
        }
    } else if (is_first(&way, "fork,")) {
        pid_t child = fork();
        if (child != 0) {
            int status = 1;
            check(waitpid(child, &status, 0) == child && status == 0, "the child");
            return 0;
        }
    } else if (is_first(&way, "drop-first,")) {
        drop_rights();
    } else if (is(way, "receive-from-child")) {
        receive_from_child();
        return 0;
    } else if (is_first(&way, "many,")) {
        write_many();
    } else if (is_first(&way, "beside-full,")) {
        fill_lingering(argv[3]);
    }
    fd = connected();
    write_and_end(way);
    return 0;
}
