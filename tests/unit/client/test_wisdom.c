/* The wisdom of a user: the table, and the file, which others may have damaged or prepared. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/core/wisdom.h"
#include "tests/unit/proto/random.h"

static char directory[] = "/tmp/tca-test-wisdom-XXXXXX";
static char path[256];
static struct wisdom *wisdom, *other;
static const char *why;

static void set_up(void)
{
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/cache/tca/wisdom", directory);
    wisdom = calloc(1, sizeof(*wisdom));
    other = calloc(1, sizeof(*other));
}

static void tear_down(void)
{
    char command[512];
    snprintf(command, sizeof(command), "rm -r %s", directory);
    cr_assert(system(command) == 0);
    free(wisdom);
    free(other);
}

TestSuite(wisdom, .init = set_up, .fini = tear_down);

static struct wisdom_entry entry_of(uint64_t number)
{
    return (struct wisdom_entry){.key = {number, ~number},
                                 .bytes = number + 1,
                                 .blocks = 3,
                                 .piece_bytes = 2048,
                                 .ns = (float)number,
                                 .distance = (uint8_t)(number % 3),
                                 .method = COPY_RING};
}

static void add(struct wisdom *to, uint64_t number)
{
    const struct wisdom_entry entry = entry_of(number);
    wisdom_add(to, &entry);
}

static bool knows(const struct wisdom *of, uint64_t number)
{
    const struct wisdom_entry expected = entry_of(number);
    const struct wisdom_entry *found = wisdom_find(of, expected.key, expected.distance);
    return found && memcmp(found, &expected, sizeof(expected)) == 0;
}

Test(wisdom, comes_back)
{
    cr_assert(wisdom_read(path, other, &why) == 0 && other->count == 0, "no file yet");
    for (uint64_t i = 0; i < 20; i++)
        add(wisdom, i);
    cr_assert(wisdom_write(path, wisdom, 0) == 0);
    cr_assert(wisdom_read(path, other, &why) == 0 && other->count == 20);
    for (uint64_t i = 0; i < 20; i++) {
        const struct wisdom_entry like = entry_of(i), longer = entry_of(i + 20);
        cr_assert(knows(other, i) && wisdom_may_know(other, &like));
        cr_assert(!wisdom_may_know(other, &longer));
    }
    struct stat status;
    cr_assert(stat(path, &status) == 0 && (status.st_mode & 07777) == 0600);
}

Test(wisdom, distances_are_apart)
{
    add(wisdom, 1);
    cr_assert(knows(wisdom, 1));
    cr_assert(!wisdom_find(wisdom, entry_of(1).key, 2));
}

Test(wisdom, the_newest_counts_and_the_oldest_goes)
{
    struct wisdom_entry changed = entry_of(5);
    for (uint64_t i = 0; i < WISDOM_ENTRIES_MAX; i++)
        add(wisdom, i);
    changed.method = COPY_PULL;
    wisdom_add(wisdom, &changed);
    cr_assert(wisdom->count == WISDOM_ENTRIES_MAX);
    cr_assert(wisdom_find(wisdom, changed.key, changed.distance)->method == COPY_PULL);
    for (uint64_t i = 0; i < 10; i++)
        add(wisdom, 100000 + i);
    cr_assert(wisdom->count == WISDOM_ENTRIES_MAX && !knows(wisdom, 0) && !knows(wisdom, 4));
    cr_assert(wisdom_find(wisdom, changed.key, changed.distance), "it was renewed");
    cr_assert(wisdom_write(path, wisdom, 0) == 0 && wisdom_read(path, other, &why) == 0);
    cr_assert(other->count == WISDOM_ENTRIES_MAX && knows(other, 100009));
}

/* A process writes only its own results to the file: entries that were cleared stay away. */
Test(wisdom, what_was_only_read_is_not_written)
{
    add(wisdom, 1);
    cr_assert(wisdom_write(path, wisdom, 0) == 0 && wisdom_read(path, other, &why) == 0);
    cr_assert(unlink(path) == 0);
    add(other, 2);
    cr_assert(wisdom_write(path, other, 0) == 0 && wisdom_read(path, wisdom, &why) == 0);
    cr_assert(wisdom->count == 1 && knows(wisdom, 2));
    cr_assert(unlink(path) == 0);
    cr_assert(wisdom_write(path, other, 0) == 0 && access(path, F_OK) < 0, "nothing new");
}

Test(wisdom, layouts_are_told_apart)
{
    uint64_t a[2], b[2], c[2], again[2];
    struct layout *eight, *sixteen;
    cr_assert(layout_contiguous(8, &eight) == 0 && layout_contiguous(16, &sixteen) == 0);
    wisdom_key(eight, eight, a);
    wisdom_key(sixteen, sixteen, b);
    wisdom_key(eight, sixteen, c);
    wisdom_key(eight, eight, again);
    cr_assert(memcmp(a, again, sizeof(a)) == 0);
    cr_assert(memcmp(a, b, sizeof(a)) != 0 && memcmp(a, c, sizeof(a)) != 0 &&
              memcmp(b, c, sizeof(a)) != 0);
    free(eight);
    free(sixteen);
}

/* As the two faces that a halo exchange sends: loops, and lists of blocks. */
Test(wisdom, layouts_of_one_shape_are_one)
{
    uint64_t key[2], moved_key[2];
    struct layout *eight, *rows, *blocks, *moved;
    const uint64_t lengths[] = {1, 2, 5};
    const int64_t offsets[] = {0, 3, 9};
    cr_assert_eq(layout_contiguous(8, &eight), 0);
    cr_assert_eq(layout_repeat(eight, 100, 64, &rows), 0);
    cr_assert_eq(layout_indexed(&(struct layout_blocks){.count = 3,
                                                        .inner = eight,
                                                        .lengths = lengths,
                                                        .offsets = offsets,
                                                        .unit_bytes = 8},
                                &blocks),
                 0);
    struct layout *const all[] = {eight, rows, blocks};
    for (unsigned i = 0; i < 3; i++) {
        wisdom_key(all[i], eight, key);
        cr_assert_eq(layout_shift(all[i], 4096, &moved), 0);
        wisdom_key(moved, eight, moved_key);
        cr_expect(memcmp(key, moved_key, sizeof(key)) == 0, "layout %u", i);
        wisdom_key(moved, moved, moved_key);
        cr_expect(i == 0 || memcmp(key, moved_key, sizeof(key)) != 0, "layout %u", i);
        free(moved);
    }
    for (unsigned i = 0; i < 3; i++)
        free(all[i]);
}

/* ---- hostile files ---- */

static size_t read_file(uint8_t *bytes, size_t room)
{
    FILE *file = fopen(path, "r");
    cr_assert(file);
    size_t got = fread(bytes, 1, room, file);
    fclose(file);
    return got;
}

static void write_file(const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    cr_assert(file && fwrite(bytes, 1, count, file) == count);
    cr_assert(fclose(file) == 0);
}

static size_t make_file(uint8_t *bytes, size_t room)
{
    for (uint64_t i = 0; i < 5; i++)
        add(wisdom, i);
    cr_assert(wisdom_write(path, wisdom, 0) == 0);
    return read_file(bytes, room);
}

static bool is_refused(int error)
{
    why = NULL;
    return wisdom_read(path, other, &why) == error && other->count == 0 && why && why[0];
}

Test(wisdom, torn_files_count_as_empty)
{
    uint8_t bytes[1024];
    const size_t count = make_file(bytes, sizeof(bytes) - 1);
    for (size_t length = 0; length < count; length++) {
        write_file(bytes, length);
        cr_assert(is_refused(-EINVAL), "%zu of %zu bytes", length, count);
    }
    bytes[count] = 0;
    write_file(bytes, count + 1);
    cr_assert(is_refused(-EINVAL));
    add(wisdom, 77);
    cr_assert(wisdom_write(path, wisdom, 0) == 0, "it is replaced");
    cr_assert(wisdom_read(path, other, &why) == 0 && knows(other, 77));
}

Test(wisdom, every_changed_bit_is_noticed)
{
    uint8_t bytes[1024];
    const size_t count = make_file(bytes, sizeof(bytes));
    for (size_t bit = 0; bit < 8 * count; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(bytes, count);
        cr_assert(is_refused(-EINVAL), "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* With a correct checksum, as this user could have written it. */
Test(wisdom, impossible_entries_are_refused)
{
    const struct wisdom_entry bad[] = {
        {.bytes = 1, .method = COPY_NONE},
        {.bytes = 1, .method = COPY_COUNT},
        {.bytes = 1, .method = COPY_PUSH, .stream = 2},
        {.bytes = 1, .method = COPY_PUSH, .distance = WISDOM_DISTANCES},
        {.bytes = 1, .method = COPY_RING, .piece_bytes = LANE_SLOT_BYTES + 1},
        {.bytes = 0, .method = COPY_PUSH},
        {.bytes = 1, .method = COPY_PUSH, .ns = -1},
        {.bytes = 1, .method = COPY_PUSH, .ns = __builtin_nanf("")},
        {.bytes = 1, .method = COPY_PUSH, .seat = SEAT_CLIENT},
        {.bytes = 1, .seat = SEAT_CLIENT},
        {.bytes = 1, .rail = "tcp:lo", .seat = SEAT_COUNT},
        {.bytes = 1, .rail = "tcp:lo", .method = COPY_PUSH},
        {.bytes = 1, .rail = "tcp:lo", .stream = 1},
        {.bytes = 1, .rail = "tcp:lo", .piece_bytes = 1},
        {.bytes = 1, .rail = "tcp lo"},
        {.bytes = 1, .rail = "tcp\033[2J"},
        {.bytes = 1, .rail = "a-name-of-32-bytes-without-a-NUL"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        wisdom->count = wisdom->added = 0;
        wisdom_add(wisdom, &bad[i]);
        unlink(path);
        cr_assert(wisdom_write(path, wisdom, 0) == 0);
        cr_assert(is_refused(-EINVAL), "%zu", i);
    }
    const struct wisdom_entry good = {.bytes = 1, .rail = "tcp:lo", .seat = SEAT_CLIENT};
    wisdom->count = wisdom->added = 0;
    wisdom_add(wisdom, &good);
    cr_assert(wisdom_write(path, wisdom, 0) == 0 && wisdom_read(path, other, &why) == 0);
}

Test(wisdom, random_files)
{
    struct random random = {random_seed()};
    uint8_t bytes[2000];
    make_file(bytes, sizeof(bytes));
    for (unsigned i = 0; i < 300; i++) {
        const size_t count = random_below(&random, sizeof(bytes));
        for (size_t at = 8 * random_below(&random, 2); at < count; at++)
            bytes[at] = (uint8_t)random_next(&random);
        write_file(bytes, count);
        cr_assert(is_refused(-EINVAL));
    }
}

Test(wisdom, what_others_could_have_written_is_not_read)
{
    uint8_t bytes[1024];
    char elsewhere[sizeof(path) + 8];
    make_file(bytes, sizeof(bytes));
    const mode_t modes[] = {0620, 0602, 0666};
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(chmod(path, modes[i]) == 0 && is_refused(-EPERM));
        add(wisdom, 9 + i);
        cr_assert(wisdom_write(path, wisdom, 0) == -EPERM, "nor replaced");
    }
    cr_assert(chmod(path, 0644) == 0 && wisdom_read(path, other, &why) == 0 && other->count == 5);
    if (geteuid() == 0) {
        cr_assert(chown(path, 12345, 12345) == 0);
        cr_assert(is_refused(-EPERM) && wisdom_write(path, wisdom, 0) == -EPERM);
    }
    snprintf(elsewhere, sizeof(elsewhere), "%s.link", path);
    cr_assert(rename(path, elsewhere) == 0 && symlink(elsewhere, path) == 0 && is_refused(-EPERM));
    cr_assert(unlink(path) == 0 && mkfifo(path, 0600) == 0 && is_refused(-EPERM), "nor waits");
    cr_assert(unlink(path) == 0 && mkdir(path, 0700) == 0 && is_refused(-EPERM));
    cr_assert(rmdir(path) == 0);
}

/* ---- several processes ---- */

enum { WRITERS = 6, EACH = 30 };

static void write_some(unsigned writer)
{
    for (uint64_t i = 0; i < EACH; i++) {
        add(wisdom, writer * 1000 + i);
        int r;
        while ((r = wisdom_write(path, wisdom, 0)) == -EBUSY)
            ;
        if (r < 0)
            _exit(1);
    }
    _exit(0);
}

Test(wisdom, writers_keep_what_others_write, .timeout = 60)
{
    pid_t pids[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            write_some(i);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        int status;
        cr_assert(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
    }
    cr_assert(wisdom_read(path, other, &why) == 0 && other->count == WRITERS * EACH);
    for (unsigned i = 0; i < WRITERS; i++)
        for (uint64_t j = 0; j < EACH; j++)
            cr_assert(knows(other, i * 1000 + j));
}

Test(wisdom, killed_writers_leave_a_sound_file, .timeout = 60)
{
    struct random random = {random_seed()};
    add(wisdom, 1);
    cr_assert(wisdom_write(path, wisdom, 0) == 0);
    for (unsigned i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0)
            for (uint64_t number = 2;; number++) {
                add(wisdom, number % 500);
                wisdom_write(path, wisdom, 0);
            }
        usleep((useconds_t)random_below(&random, 3000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        cr_assert(wisdom_read(path, other, &why) == 0 && knows(other, 1), "%s", why);
    }
}

/* What a busy machine has found is used there, and forgotten on a quiet one. */
Test(wisdom, of_a_busy_machine_is_doubted_on_a_quiet_one)
{
    add(wisdom, 1);
    cr_assert(wisdom_write(path, wisdom, 3.14) == 0);
    add(wisdom, 2);
    cr_assert(wisdom_write(path, wisdom, 1) == 0 && wisdom_read(path, other, &why) == 0);
    cr_assert_eq(other->count, 2);
    cr_assert_eq(other->entries[0].load_tenths, 31);
    cr_assert_eq(other->entries[1].load_tenths, 10);
    wisdom_doubt(other, 1);
    cr_assert_eq(other->count, 2, "still busy");
    wisdom_doubt(other, 0.1);
    cr_assert_eq(other->count, 1);
    cr_assert_eq(other->entries[0].bytes, entry_of(2).bytes);
    wisdom_doubt(other, 0.1);
    cr_assert_eq(other->count, 1);
    cr_assert(wisdom_read(path, other, &why) == 0 && other->count == 2, "the file is as before");
    add(wisdom, 3);
    cr_assert(wisdom_write(path, wisdom, 1000) == 0 && wisdom_read(path, other, &why) == 0);
    cr_assert_eq(other->entries[2].load_tenths, 250, "the most");
}
