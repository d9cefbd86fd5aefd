// tca.hpp: views of every kind against assignments of elements, a ring of puts, a halo, errors. Any number of ranks; prints what is wrong.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <tca.hpp>

namespace
{

int failures;

void expect(bool holds, const char *what)
{
    if (!holds) {
        std::printf("FAILED: %s\n", what);
        failures++;
    }
}

// A slice from each rank to the next one, into a slice of another kind there.
void puts(const tcapp::session &session)
{
    const std::uint32_t right = (session.rank() + 1) % session.size(),
                        left = (session.rank() + session.size() - 1) % session.size();
    tcapp::array<int, 3> from(session, {4, 6, 5}), to(session, {5, 8, 10});
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 6; j++)
            for (int k = 0; k < 5; k++)
                from(i, j, k) = static_cast<int>(session.rank() * 1000) + i * 100 + j * 10 + k;
    const auto handles = session.allgather(to.handle());
    // Backwards and every second one here; forwards, and backwards in another dimension there.
    const auto source = from.range(0, 3, 2, -2).range(1, 1, 3, 2);
    const auto form = [](const auto &of) {
        return of.range(0, 1, 2).range(1, 7, 3, -3).range(2, 0, 5, 2);
    };
    tcapp::plan plan(session);
    plan.put(source, form(to.of(handles[right]))).notify(right, 0).commit();
    const tcapp::plan moved = std::move(plan);
    for (int round = 0; round < 3; round++) {
        moved.start();
        session.wait_notified(left, 0);
        moved.wait();
    }
    const auto target = form(tcapp::view<int, 3>(to));
    long sum = 0, all = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 5; k++) {
                const int expected =
                    static_cast<int>(left * 1000) + (3 - 2 * i) * 100 + (1 + 2 * j) * 10 + k;
                expect(target(i, j, k) == expected, "an element of a put");
                sum += expected;
            }
    for (std::size_t i = 0; i < to.form().size(); i++)
        all += to.data()[i];
    expect(all == sum, "elements around a put are as before");
    session.barrier();
}

void halos(const tcapp::session &session)
{
    tcapp::array<double, 1> line(session, {12});
    for (int i = 1; i <= 10; i++)
        line(i) = session.rank();
    tca_halo_array array{};
    array.memory[0] = line.data();
    array.element_bytes = sizeof(double);
    array.extents[0] = 10;
    array.low[0] = array.high[0] = 1;
    tca_halo_args args{};
    args.dimensions = 1;
    args.grid[0] = session.size();
    args.periodic[0] = 1;
    args.arrays = &array;
    args.array_count = 1;
    tcapp::halo halo(session, args);
    halo.start();
    halo.wait();
    expect(line(0) == (session.rank() + session.size() - 1) % session.size(), "the lower ghost");
    expect(line(11) == (session.rank() + 1) % session.size(), "the upper ghost");
}

template <class Call> int code_of(Call call)
{
    try {
        call();
    } catch (const tcapp::error &error) {
        expect(error.what()[0] != '\0', "an error has a text");
        return error.code();
    } catch (const std::out_of_range &) {
        return -ERANGE;
    }
    return 0;
}

void errors(const tcapp::session &session)
{
    tcapp::array<int, 1> a(session, {8});
    int elsewhere[8] = {};
    tcapp::plan plan(session);
    expect(code_of([&] { plan.put(a.range(0, 0, 4), a.of(a.handle()).range(0, 0, 3)); }) == -EINVAL,
           "sides of different sizes");
    expect(code_of([&] { a.range(0, 4, 5); }) == -ERANGE, "a range that is too long");
    expect(code_of([&] { a.range(0, 1, 3, -1); }) == -ERANGE, "a range that leads below 0");
    expect(code_of([&] { a.slice(1, 0); }) == -ERANGE, "a dimension too many");
    expect(code_of([&] {
               tcapp::plan(session).put(tcapp::view<int, 1>(elsewhere, {8}), a.of(a.handle()));
           }) < 0,
           "memory of no region");
    expect(code_of([&] { plan.start(); }) < 0, "a plan that is not committed");
    expect(code_of([&] { session.wait_notified(session.rank(), 7, 0); }) < 0, "no notification");
}

} // namespace

int main()
{
    try {
        const tcapp::session session;
        puts(session);
        halos(session);
        errors(session);
        session.barrier();
    } catch (const std::exception &error) {
        std::printf("FAILED: %s\n", error.what());
        return 1;
    }
    return failures > 0;
}
