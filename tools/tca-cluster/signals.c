#include "tools/tca-cluster/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/common/must.h"

static int signals_fd = -1;

int signals_open(void)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;

    if (signals_fd >= 0)
        return signals_fd;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        sigaddset(&set, numbers[i]);
        signal(numbers[i], SIG_DFL); /* ignored signals (nohup, "&" in a script) would not arrive */
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_fd < 0)
        must(NULL);
    return signals_fd;
}

int signals_next(void)
{
    struct signalfd_siginfo info;

    return read(signals_fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

void signals_reset(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
