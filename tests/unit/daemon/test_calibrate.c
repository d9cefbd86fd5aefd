/* What the calibration measures, and of what it makes costs. */
#include <criterion/criterion.h>

#include "daemon/rails/calibrate.h"
#include "drivers/table.h"

/* A put between two threads takes what it takes, unless other threads had the processors. */
Test(calibrate, of_times_between_threads)
{
    cr_expect_eq(calibrate_apart_ns(700, 1000), 700, "both ends work at the same time");
    cr_expect_eq(calibrate_apart_ns(2500, 1000), 2500, "data goes from core to core");
    cr_expect_eq(calibrate_apart_ns(4000, 1000), 4000);
    cr_expect_eq(calibrate_apart_ns(20000000, 1000), 4000, "a time slice of another thread");
}

/* Where one seat was disturbed, the other one knows better. */
Test(calibrate, both_seats_do_the_same_work)
{
    struct cost_parameters client = {.latency_ns = 27000,
                                     .block_ns = 9,
                                     .small_bytes_per_ns = 1,
                                     .large_bytes_per_ns = 1.5},
                           daemon = {.latency_ns = 24000,
                                     .block_ns = 12,
                                     .small_bytes_per_ns = 1.25,
                                     .large_bytes_per_ns = 0.5};
    calibrate_same(&client, &daemon);
    cr_expect_eq(client.latency_ns, 24000);
    cr_expect_eq(client.block_ns, 9);
    cr_expect_eq(client.small_bytes_per_ns, 1.25);
    cr_expect_eq(client.large_bytes_per_ns, 1.5);
    cr_expect_arr_eq(&client, &daemon, sizeof(client));
}

static void measure(const struct calibrate_seat *seat)
{
    const struct driver_config config = {.guarded = false};
    const struct calibrate_subject subject = {
        .ops = &tcp_driver_ops, .config = &config, .seat = seat};
    struct cost_parameters found = {.valid = false};
    double spread = 0;

    cr_assert_eq(calibrate_driver(&subject, &found, &spread), 0);
    cr_expect(found.valid && found.latency_ns > 0 && found.block_ns >= 0);
    cr_expect(found.small_bytes_per_ns > 0 && found.large_bytes_per_ns > 0);
    cr_expect(spread >= 1);
}

Test(calibrate, tcp_in_the_seat_of_tcad)
{
    measure(NULL);
}

/* In clear, by the kernel's TLS if it has that, and by ours. */
Test(calibrate, tcp_in_the_seat_of_a_client)
{
    struct calibrate_seat seat = {.seat = tcp_driver_ops.pairs->seat};

    measure(&seat);
    seat.encrypts = true;
    measure(&seat);
    seat.kernel = true;
    measure(&seat);
}
