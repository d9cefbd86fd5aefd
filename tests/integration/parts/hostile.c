/*
 * parts-hostile: writes parts past the library's checks into the session's segment: outside the
 * committed puts, also while the daemon reads them. Ends with 0 if the daemon refuses all of them
 * and no byte outside a put changes, or prints what was wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "client/core/session.h"
#include "client/plan/parts.h"
#include "tests/integration/expect.h"

enum { BYTES = 1 << 20, BEGIN = 8192, PUT_BYTES = 4096, STARTS = 3000 };

static struct tca *session;
static struct start_part *table;
static _Atomic bool over;

static void write_part(uint64_t source_at, uint64_t target_at, uint64_t bytes)
{
    atomic_store(&table->source_at_bytes, source_at);
    atomic_store(&table->target_at_bytes, target_at);
    atomic_store(&table->bytes, bytes);
}

static void refused(struct tca_plan *plan, uint64_t source_at, uint64_t target_at, uint64_t bytes)
{
    write_part(source_at, target_at, bytes);
    check(tca_start(plan), "start");
    int r = tca_wait(plan, TCA_DEFAULT);
    if (r == -EINVAL)
        return;
    printf("%llu bytes from %llu to %llu: %d, not refused\n", (unsigned long long)bytes,
           (unsigned long long)source_at, (unsigned long long)target_at, r);
    wrong = 1;
}

static void *scribble(void *seed)
{
    static const uint64_t values[] = {0,    1,       4095,       4096,
                                      4097, 1 << 20, UINT64_MAX, UINT64_MAX - 4095};
    uint32_t state = (uint32_t)(uintptr_t)seed;
    while (!atomic_load(&over)) {
        state = state * 1664525 + 1013904223;
        write_part(values[state >> 8 & 7], values[state >> 12 & 7], values[state >> 16 & 7]);
    }
    return NULL;
}

static void starts_under_scribbles(struct tca_plan *plan)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, scribble, (void *)12345) != 0)
        exit(1);
    for (unsigned i = 0; i < STARTS; i++) {
        write_part(0, 0, PUT_BYTES);
        check(tca_start(plan), "start");
        int r = tca_wait(plan, TCA_DEFAULT);
        if (r == 0 || r == -EINVAL)
            continue;
        printf("start %u: %d: %s\n", i, r, tca_error_text());
        wrong = 1;
        break;
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    struct tca_region *source, *target;
    struct tca_handle handle;
    struct tca_plan *plan;
    check(tca_open(NULL, &session), "open");
    check(tca_region_alloc(session, BYTES, &source), "memory");
    check(tca_region_alloc(session, BYTES, &target), "memory");
    uint8_t *from = tca_region_address(source), *to = tca_region_address(target);
    for (int i = 0; i < BYTES; i++)
        from[i] = i >= BEGIN && i < BEGIN + PUT_BYTES ? 1 : 2;
    check(tca_region_handle(target, BEGIN, PUT_BYTES, &handle), "handle");
    const struct tca_plan_args args = {.seat = TCA_SEAT_DAEMON};
    check(tca_plan_new(session, &args, &plan), "plan");
    check(tca_plan_put(plan, &(struct tca_put){.source = source,
                                               .source_offset_bytes = BEGIN,
                                               .target = handle,
                                               .bytes = PUT_BYTES,
                                               .parts = 1}),
          "put");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    table = &session->segment->parts[parts_at(plan)];

    refused(plan, 0, 0, PUT_BYTES + 1);
    refused(plan, 1, 0, PUT_BYTES);
    refused(plan, 0, 1, PUT_BYTES);
    refused(plan, (uint64_t)-BEGIN, 0, 64);
    refused(plan, 0, (uint64_t)-BEGIN, 64);
    refused(plan, UINT64_MAX, 0, 2);
    refused(plan, 0, 2, UINT64_MAX);
    starts_under_scribbles(plan);
    for (int i = 0; i < BYTES; i++)
        if (to[i] > (i >= BEGIN && i < BEGIN + PUT_BYTES ? 1 : 0)) {
            printf("byte %d of the target is %d\n", i, to[i]);
            wrong = 1;
            break;
        }
    tca_close(session);
    return wrong;
}
