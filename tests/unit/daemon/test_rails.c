/* The table of rails: which rail a name selects, and which rails of two nodes lead to each
 * other. */
#include "daemon/rails/rails.h"

#include <criterion/criterion.h>

#include "daemon/tcad.h"

enum { SHM = 1, TCP, OFI_A, OFI_B, OFI_OFF, PEACH2 };

static struct rails rails = {
    .count = PEACH2,
    .last = OFI_B,
    .at = {
        [SHM] = {.name = "shm", .plane = "shm", .driver = DRIVER_SHM, .open = true},
        [TCP] = {.name = "tcp:eth0", .plane = "a", .driver = DRIVER_TCP, .open = true},
        [OFI_A] = {.name = "ofi:tcp:eth0", .plane = "a", .driver = DRIVER_OFI, .open = true},
        [OFI_B] = {.name = "fast", .plane = "ofi:verbs", .driver = DRIVER_OFI, .open = true},
        [OFI_OFF] = {.name = "ofi:udp", .plane = "b", .driver = DRIVER_OFI, .remedy = "do"},
        [PEACH2] = {.name = "peach2", .driver = DRIVER_PEACH2},
    }};
static const struct tcad tcad = {.rails = &rails};

Test(rails, names_are_of_one)
{
    cr_expect_eq(rails_named(&tcad, "ofi:tcp:eth0"), 1u << OFI_A);
    cr_expect_eq(rails_named(&tcad, "fast"), 1u << OFI_B);
    cr_expect_eq(rails_named(&tcad, "ofi:udp"), 1u << OFI_OFF, "to say why it is off");
    const char *const none[] = {"", "any", "ofi:", "ofi:tcp", "FAST", "hca", "fast "};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        cr_expect_eq(rails_named(&tcad, none[i]), 0, "%s", none[i]);
}

Test(rails, a_driver_is_any_of_its_open_rails)
{
    cr_expect_eq(rails_named(&tcad, "ofi"), 1u << OFI_A | 1u << OFI_B);
    cr_expect_eq(rails_named(&tcad, "tcp"), 1u << TCP);
    cr_expect_eq(rails_named(&tcad, "peach2"), 1u << PEACH2, "to say why it is off");
}

Test(rails, match_by_driver_and_plane)
{
    cr_expect_eq(rail_find(&tcad, "ofi", "a"), OFI_A);
    cr_expect_eq(rail_find(&tcad, "tcp", "a"), TCP);
    cr_expect_eq(rail_find(&tcad, "ofi", "ofi:verbs"), OFI_B);
    cr_expect_eq(rail_find(&tcad, "ofi", "b"), RAIL_NONE, "it is off");
    cr_expect_eq(rail_find(&tcad, "ofi", ""), RAIL_NONE);
    cr_expect_eq(rail_find(&tcad, "peach2", ""), RAIL_NONE);
    cr_expect_eq(rail_find(&tcad, "", "a"), RAIL_NONE);
    cr_expect_eq(rail_find(&tcad, "ofi:tcp:eth0", "a"), RAIL_NONE, "a name is no driver");
}

Test(rails, are_shown)
{
    Tca__Rail described[RAILS_MAX];
    char text[256];
    cr_expect_str_eq(rails_text(&tcad, text, sizeof(text)), "shm, tcp:eth0, ofi:tcp:eth0, fast");
    cr_expect_eq(strlen(rails_text(&tcad, text, 12)), 11);
    cr_expect_eq(rails_describe(&tcad, described), OFI_B);
    cr_expect_str_eq(described[OFI_B - 1].name, "fast");
    cr_expect_str_eq(described[OFI_B - 1].driver, "ofi");
    cr_expect_eq(rail_refused(&tcad), &rails.at[OFI_OFF]);
    cr_expect_null(rail_name(&tcad, RAIL_NONE));
    cr_expect_null(rail_name(&tcad, PEACH2 + 1));
}
