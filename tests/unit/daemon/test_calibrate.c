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
    struct cost_parameters client = {.put_ns = {27000, 28000}, .block_ns = 9},
                           daemon = {.put_ns = {24000, 29000}, .block_ns = 12};

    calibrate_same(&client, &daemon);
    cr_expect_eq(client.put_ns[0], 24000);
    cr_expect_eq(client.put_ns[1], 28000);
    cr_expect_eq(client.block_ns, 9);
    cr_expect_arr_eq(&client, &daemon, sizeof(client));
}

Test(calibrate, more_or_less_time)
{
    struct cost_parameters parameters = {.put_ns = {100, 200}};

    calibrate_add_ns(&parameters, -150);
    cr_expect_eq(parameters.put_ns[0], 1, "a put takes some time");
    cr_expect_eq(parameters.put_ns[1], 50);
}

static void measure_subject(const struct calibrate_subject *subject)
{
    struct cost_parameters found = {.valid = false};
    double spread = 0, least_ns = 1;

    cr_assert_eq(calibrate_driver(subject, &found, &spread), 0);
    cr_expect(found.valid && found.block_ns >= 0);
    for (unsigned size = 0; size < COST_SIZES; size++) {
        cr_expect_geq(found.put_ns[size], least_ns);
        least_ns = found.put_ns[size];
    }
    cr_expect(spread >= 1);
}

static void measure(const struct calibrate_seat *seat)
{
    const struct driver_config config = {.guarded = false};

    measure_subject(
        &(struct calibrate_subject){.ops = &tcp_driver_ops, .config = &config, .seat = seat});
}

Test(calibrate, shm_with_the_help_of_the_receiver)
{
    const struct driver_config config = {.segment_bytes = 0};

    measure_subject(
        &(struct calibrate_subject){.ops = &shm_driver_ops, .config = &config, .shares = true});
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
