/* Preloaded into a program: its first queue pairs fail when it gets SIGUSR1. For tests with a
 * device. */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

enum { QPS_MAX = 64 };
static _Atomic(struct ibv_qp *) qps[QPS_MAX];

static void replace(struct ibv_qp *old, struct ibv_qp *new)
{
    for (size_t i = 0; i < QPS_MAX; i++) {
        struct ibv_qp *expected = old;
        if (atomic_compare_exchange_strong(&qps[i], &expected, new))
            return;
    }
}

__attribute__((visibility("default"))) struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
                                                                    struct ibv_qp_init_attr *init)
{
    struct ibv_qp *(*create)(struct ibv_pd *, struct ibv_qp_init_attr *) =
        (struct ibv_qp * (*)(struct ibv_pd *, struct ibv_qp_init_attr *))
            dlsym(RTLD_NEXT, "ibv_create_qp");
    struct ibv_qp *qp = create(pd, init);
    if (qp)
        replace(NULL, qp);
    return qp;
}

__attribute__((visibility("default"))) int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*destroy)(struct ibv_qp *) = (int (*)(struct ibv_qp *))dlsym(RTLD_NEXT, "ibv_destroy_qp");
    replace(qp, NULL);
    return destroy(qp);
}

/* The command is one system call. */
static void fail(int signal)
{
    for (size_t i = 0; i < QPS_MAX; i++) {
        struct ibv_qp *qp = atomic_load(&qps[i]);
        struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};
        if (qp)
            ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
    }
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action = {.sa_handler = fail, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
}
