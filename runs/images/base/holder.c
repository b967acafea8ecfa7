/* The first process of agent, verifier and probe containers.
 *
 * It reaps every orphan, and ends at once when the engine asks for it (TERM or INT from outside the
 * container's process namespace, which the kernel reports as sender 0). The same signals from a process
 * inside are ignored: an agent cannot end its container, and `kill -9 -1` does not reach a first process.
 * Written in C so that it is the smallest process of the container when the kernel looks for memory.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_from_outside(const siginfo_t *info) {
    return info->si_code == SI_USER && info->si_pid == 0;
}

int main(void) {
    sigset_t watched;
    siginfo_t info;

    sigemptyset(&watched);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    for (;;) {
        int received = sigwaitinfo(&watched, &info);
        if (received == SIGCHLD)
            while (waitpid(-1, NULL, WNOHANG) > 0)
                continue;
        else if (received > 0 && is_from_outside(&info))
            _exit(0);
    }
}
