#include <criterion/criterion.h>

#include "tools/tcactl/units.h"

#define EXPECT(made, expected) cr_expect_str_eq((made).text, expected)

Test(units, bytes)
{
    EXPECT(units_bytes(0), "0 B");
    EXPECT(units_bytes(1023), "1023 B");
    EXPECT(units_bytes(1024), "1.00 KiB");
    EXPECT(units_bytes(1536), "1.50 KiB");
    EXPECT(units_bytes(10 * 1024), "10.0 KiB");
    EXPECT(units_bytes(999 * 1024), "999 KiB");
    EXPECT(units_bytes(1024 * 1024 - 1), "1.00 MiB"); /* never "1024 KiB" */
    EXPECT(units_bytes(18446744073709551615.0), "16.0 EiB");
}

Test(units, times)
{
    EXPECT(units_ns(0), "0 ns");
    EXPECT(units_ns(0.5), "0.50 ns");
    EXPECT(units_ns(999), "999 ns");
    EXPECT(units_ns(1250), "1.25 us");
    EXPECT(units_ns(9999), "10.0 us");
    EXPECT(units_ns(2.5e6), "2.50 ms");
    EXPECT(units_ns(3e12), "3000 s");
}

Test(units, counts)
{
    EXPECT(units_count(0), "0");
    EXPECT(units_count(999999), "999999");
    EXPECT(units_count(1234567), "1.23 M");
    EXPECT(units_count(0.25), "0.25");
}

Test(units, ages)
{
    EXPECT(units_age(-1), "0s");
    EXPECT(units_age(59.9), "59s");
    EXPECT(units_age(61), "1m 1s");
    EXPECT(units_age(7265), "2h 1m");
    EXPECT(units_age(3 * 86400 + 4 * 3600), "3d 4h");
    EXPECT(units_age(1e300), "0s");
}
