/* `forks PORT` listens at a port, and makes children while others connect to the library. Each
 * child has the descriptors of the program alone. Prints how many had others. */
#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 500

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static int descriptors(void) {
    DIR *opened = opendir("/proc/self/fd");
    int count = 0;
    check(opened != NULL, "/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(opened)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(opened);
    return count;
}

int main(int argc, char **argv) {
    check(argc == 2, "forks PORT");
    /* A process that hangs is no success. */
    alarm(100);
    int own = descriptors() + 1, wrong = 0;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    check(listen(listener, 5) == 0, "listen");
    puts("listening");
    fflush(stdout);
    for (int left = CHILDREN; left > 0; left--) {
        int status = 1;
        pid_t child = fork();
        if (child == 0) {
            _exit(descriptors() == own ? 0 : 1);
        }
        check(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
        wrong += status != 0;
    }
    printf("%d of %d\n", wrong, CHILDREN);
    return 0;
}
