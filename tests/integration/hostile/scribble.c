/*
 * A client that writes over every byte of the segments that it shares with its daemon, again and
 * again, while plans of its own run:
 *
 *     scribble SECONDS SEED WHAT [RAIL]
 *
 * WHAT: session, notify, or both. RAIL: of the plans in the daemon's seat. Ends with 0 when the
 * daemon has thrown it out or the time is over; it is not to be trusted with anything it says about
 * itself.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/tca.h"

struct mapping {
    uint8_t *base;
    size_t bytes;
};

static uint64_t state;

static uint64_t chance(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* The mappings of memfds of this name. */
static size_t find(const char *name, struct mapping *ret, size_t room)
{
    char line[512];
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps) && count < room) {
        uintptr_t from, to;
        if (strstr(line, name) && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2)
            ret[count++] = (struct mapping){(uint8_t *)from, to - from};
    }
    if (maps)
        fclose(maps);
    return count;
}

/* One of: one byte everywhere, random bytes, one random word, every word slightly increased. */
static void scribble(const struct mapping *mapping)
{
    uint64_t *words = (uint64_t *)mapping->base;
    size_t count = mapping->bytes / sizeof(*words);
    switch (chance() % 4) {
    case 0:
        memset(mapping->base, (int)chance(), mapping->bytes);
        break;
    case 1:
        for (size_t i = 0; i < count; i++)
            words[i] = chance();
        break;
    case 2:
        words[chance() % count] = chance();
        break;
    case 3:
        for (size_t i = 0; i < count; i++)
            words[i]++;
        break;
    }
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "scribble: %s: %s\n", what, tca_error_text());
    exit(1);
}

static struct tca_plan *make_plan(struct tca *session, struct tca_region *region,
                                  enum tca_seat seat, uint32_t channel, const char *rail)
{
    struct tca_plan_args args = {
        .name = "scribbler", .seat = seat, .channel = channel, .rail_name = rail};
    struct tca_put put = {.source = region, .target_offset_bytes = 1 << 19, .bytes = 1 << 18};
    struct tca_plan *plan;
    if (tca_region_handle(region, 0, TCA_ALL, &put.target) < 0 ||
        tca_plan_new(session, &args, &plan) < 0 || tca_plan_put(plan, &put) < 0 ||
        tca_plan_notify(plan, 0, channel) < 0 || tca_plan_chain(plan) < 0 ||
        tca_plan_wait(plan, 0, channel, 1) < 0 || tca_plan_notify(plan, 0, 8) < 0 ||
        tca_plan_commit(plan, TCA_DEFAULT) < 0)
        die("plan");
    return plan;
}

int main(int argc, char **argv)
{
    struct mapping mappings[8];
    struct tca *session;
    struct tca_region *region;
    struct tca_plan *plans[5];
    size_t count = 0;

    if (argc != 4 && argc != 5)
        return 2;
    state = strtoull(argv[2], NULL, 10) + 0x9e3779b97f4a7c15;
    if (tca_open(NULL, &session) < 0)
        die("open");
    if (tca_region_alloc(session, 1 << 20, &region) < 0)
        die("alloc");
    for (uint32_t channel = 0; channel < 4; channel++)
        plans[channel] = make_plan(session, region, TCA_SEAT_DAEMON, channel, argv[4]);
    plans[4] = make_plan(session, region, TCA_SEAT_CLIENT, 0, NULL);

    if (strcmp(argv[3], "notify") != 0)
        count += find("tca-session", mappings, 4);
    if (strcmp(argv[3], "session") != 0)
        count += find("tca-notify", mappings + count, 4);
    if (count == 0) {
        fprintf(stderr, "scribble: the segments are not to be found\n");
        return 1;
    }
    puts("scribbling");
    fflush(stdout);
    alarm((unsigned)atoi(argv[1])); /* whatever this process's own library makes of it: the test
                                     ends here */
    signal(SIGALRM, _exit);
    signal(SIGSEGV, _exit);
    signal(SIGBUS, _exit);
    for (;;) {
        for (size_t i = 0; i < 5; i++)
            tca_start(plans[i]);
        for (size_t i = 0; i < count; i++)
            scribble(&mappings[i]);
        for (size_t i = 0; i < 5; i++)
            tca_test(plans[i]);
    }
}
