/*
 * tca.hpp: tca.h and tca-halo.h for C++17, optional. Objects own what they stand for, and what
 * fails throws tcapp::error with the library's text. A view is memory with extents and strides, as
 * of an array's slice; a put takes one on each side, and no element is copied in between.
 *
 *     tcapp::session session;
 *     tcapp::array<double, 2> a(session, {100, 50});
 *     auto handles = session.allgather(a.handle());
 *     tcapp::plan plan(session);
 *     plan.put(a.slice(0, 99), a.of(handles[right]).slice(0, 0)).notify(right, 0).commit();
 *     plan.start();
 *
 * get() gives the C object, for all other calls. Objects move, but do not copy, and go before their
 * session. Threads and memory: as in tca.h; a start and a wait cost what they cost in C.
 */
#ifndef TCA_HPP
#define TCA_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <tca-halo.h>
#include <tca.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace tcapp
{

/* A call of the library has failed: code() is its negative errno, what() its text. */
class error : public std::runtime_error
{
  public:
    explicit error(int code) : std::runtime_error(tca_error_text()), code_(code)
    {
    }
    int code() const noexcept
    {
        return code_;
    }

  private:
    int code_;
};

/* Returns the result of a call, 0 or more, or throws. For calls of the C headers, too. */
inline int check(int result)
{
    if (result < 0)
        throw error(result);
    return result;
}

namespace detail
{
template <class T, auto release> struct released {
    void operator()(T *object) const noexcept
    {
        release(object);
    }
};
template <class T, auto release> using owner = std::unique_ptr<T, released<T, release>>;
} // namespace detail

/* Extents and strides, the outermost dimension first, and where the first element is, in elements
 * from the beginning of some memory. */
template <std::size_t Rank> struct shape {
    static_assert(Rank > 0);
    std::array<std::size_t, Rank> extents{};
    std::array<std::ptrdiff_t, Rank> strides{}; /* in elements, of any sign */
    std::ptrdiff_t first = 0;

    shape() = default;
    /* The last index is contiguous. */
    explicit shape(const std::array<std::size_t, Rank> &of) : extents(of)
    {
        std::ptrdiff_t step = 1;
        for (std::size_t d = Rank; d-- > 0; step *= static_cast<std::ptrdiff_t>(of[d]))
            strides[d] = step;
    }
    std::size_t size() const noexcept
    {
        std::size_t count = 1;
        for (std::size_t extent : extents)
            count *= extent;
        return count;
    }
    /* `count` indices of a dimension from `from` on, each `step` after the one before, which may be
     * backwards. std::out_of_range. */
    shape range(std::size_t d, std::size_t from, std::size_t count, std::ptrdiff_t step) const
    {
        const std::ptrdiff_t begin = static_cast<std::ptrdiff_t>(from),
                             extent = static_cast<std::ptrdiff_t>(extents.at(d)),
                             more = static_cast<std::ptrdiff_t>(count) - 1;
        shape result = *this;
        if (more >= 0) {
            if (begin >= extent || begin + more * step < 0 || begin + more * step >= extent)
                throw std::out_of_range("tcapp: a range beyond the extent of its dimension");
            result.first += begin * strides[d];
        }
        result.extents[d] = count;
        result.strides[d] *= step;
        return result;
    }
};

/* Memory of this process, which belongs to somebody else. */
template <class T, std::size_t Rank> class view
{
    static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");

  public:
    view(T *memory, const shape<Rank> &of) : memory_(memory), shape_(of)
    {
    }
    view(T *memory, const std::array<std::size_t, Rank> &extents) : view(memory, shape(extents))
    {
    }

    T *data() const noexcept
    {
        return memory_ + shape_.first;
    }
    const shape<Rank> &form() const noexcept
    {
        return shape_;
    }
    template <class... Index> T &operator()(Index... index) const noexcept
    {
        static_assert(sizeof...(Index) == Rank, "an index for each dimension");
        std::ptrdiff_t at = shape_.first;
        std::size_t d = 0;
        ((at += static_cast<std::ptrdiff_t>(index) * shape_.strides[d++]), ...);
        return memory_[at];
    }
    view range(std::size_t d, std::size_t from, std::size_t count, std::ptrdiff_t step = 1) const
    {
        return {memory_, shape_.range(d, from, count, step)};
    }
    /* One index of a dimension, which stays, with the extent 1. */
    view slice(std::size_t d, std::size_t index) const
    {
        return range(d, index, 1);
    }

  private:
    T *memory_;
    shape<Rank> shape_;
};

/* The same of another process, by a handle of its beginning. */
template <class T, std::size_t Rank> class remote_view
{
  public:
    remote_view(const tca_handle &handle, const shape<Rank> &of) : handle_(handle), shape_(of)
    {
    }

    const tca_handle &handle() const noexcept
    {
        return handle_;
    }
    const shape<Rank> &form() const noexcept
    {
        return shape_;
    }
    remote_view range(std::size_t d, std::size_t from, std::size_t count,
                      std::ptrdiff_t step = 1) const
    {
        return {handle_, shape_.range(d, from, count, step)};
    }
    remote_view slice(std::size_t d, std::size_t index) const
    {
        return range(d, index, 1);
    }

  private:
    tca_handle handle_;
    shape<Rank> shape_;
};

class layout
{
  public:
    /* Takes over one that a function of tca.h has made. */
    explicit layout(tca_layout *made) noexcept : layout_(made)
    {
    }
    template <std::size_t Rank> layout(const shape<Rank> &of, std::size_t element_bytes)
    {
        tca_layout *made = nullptr;
        check(tca_layout_contiguous(element_bytes, &made));
        layout_.reset(made);
        for (std::size_t d = Rank; d-- > 0;) {
            check(tca_layout_repeat(get(), of.extents[d],
                                    of.strides[d] * static_cast<std::ptrdiff_t>(element_bytes),
                                    &made));
            layout_.reset(made);
        }
    }
    tca_layout *get() const noexcept
    {
        return layout_.get();
    }

  private:
    detail::owner<tca_layout, tca_layout_free> layout_;
};

class session
{
  public:
    /* Group, rank and size from the launcher, unless `args` names them. Waits for all ranks. */
    explicit session(const tca_open_args &args = {})
    {
        tca *opened = nullptr;
        check(tca_open(&args, &opened));
        session_.reset(opened);
    }
    tca *get() const noexcept
    {
        return session_.get();
    }
    std::uint32_t rank() const noexcept
    {
        return tca_rank(get());
    }
    std::uint32_t size() const noexcept
    {
        return tca_size(get());
    }
    void barrier(std::int64_t timeout_ns = TCA_DEFAULT) const
    {
        check(tca_barrier(get(), timeout_ns));
    }
    /* The value of each rank, at most 4096 bytes. */
    template <class T>
    std::vector<T> allgather(const T &own, std::int64_t timeout_ns = TCA_DEFAULT) const
    {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 4096);
        std::vector<T> all(size());
        check(tca_allgather(get(), &own, sizeof(T), all.data(), timeout_ns));
        return all;
    }
    /* Takes one notification, which it waits for. */
    void wait_notified(std::uint32_t rank, std::uint32_t slot,
                       std::int64_t timeout_ns = TCA_DEFAULT) const
    {
        check(tca_notified_wait(get(), rank, slot, timeout_ns));
    }

  private:
    detail::owner<tca, tca_close> session_;
};

/* Memory that peers can put into, of elements that are zero. */
template <class T, std::size_t Rank> class array : public view<T, Rank>
{
  public:
    array(const session &of, const std::array<std::size_t, Rank> &extents)
        : view<T, Rank>(take(of, shape<Rank>(extents).size()), extents),
          memory_(this->data(), freed{of.get()})
    {
        std::fill_n(this->data(), this->form().size(), T{});
    }
    tca_handle handle() const
    {
        tca_handle handle;
        check(tca_handle_of(memory_.get_deleter().session, this->data(),
                            this->form().size() * sizeof(T), &handle));
        return handle;
    }
    /* An array of the same extents, which another process has made. */
    remote_view<T, Rank> of(const tca_handle &handle) const
    {
        return {handle, this->form()};
    }

  private:
    struct freed {
        tca *session;
        void operator()(T *memory) const noexcept
        {
            tca_free(session, memory);
        }
    };
    static T *take(const session &of, std::size_t count)
    {
        void *memory = nullptr;
        if (count > SIZE_MAX / sizeof(T))
            throw std::bad_array_new_length();
        check(tca_alloc(of.get(), count * sizeof(T), &memory));
        return static_cast<T *>(memory);
    }

    std::unique_ptr<T, freed> memory_;
};

class plan
{
  public:
    explicit plan(const session &of, const tca_plan_args &args = {})
    {
        tca_plan *made = nullptr;
        check(tca_plan_new(of.get(), &args, &made));
        plan_.reset(made);
    }
    tca_plan *get() const noexcept
    {
        return plan_.get();
    }
    /* Steps, in their order. From memory of array or of any region into as many elements. */
    template <class T, std::size_t Source, std::size_t Target>
    plan &put(const view<T, Source> &source,
              const remote_view<std::remove_const_t<T>, Target> &target)
    {
        const layout from(source.form(), sizeof(T)), to(target.form(), sizeof(T));
        tca_put step{};
        step.source_address = source.data();
        step.source_layout = from.get();
        step.target = target.handle();
        step.target_offset_bytes = static_cast<std::uint64_t>(target.form().first) * sizeof(T);
        step.target_layout = to.get();
        check(tca_plan_put(get(), &step));
        return *this;
    }
    plan &notify(std::uint32_t rank, std::uint32_t slot)
    {
        check(tca_plan_notify(get(), rank, slot));
        return *this;
    }
    plan &wait_for(std::uint32_t rank, std::uint32_t slot, std::uint64_t count = 1)
    {
        check(tca_plan_wait(get(), rank, slot, count));
        return *this;
    }
    plan &commit(std::int64_t timeout_ns = TCA_DEFAULT)
    {
        check(tca_plan_commit(get(), timeout_ns));
        return *this;
    }
    void start() const
    {
        check(tca_start(get()));
    }
    bool test() const
    {
        return check(tca_test(get())) > 0;
    }
    void wait(std::int64_t timeout_ns = TCA_DEFAULT) const
    {
        check(tca_wait(get(), timeout_ns));
    }

  private:
    detail::owner<tca_plan, tca_plan_free> plan_;
};

/* The exchange of tca-halo.h. */
class halo
{
  public:
    halo(const session &of, const tca_halo_args &args)
    {
        tca_halo *made = nullptr;
        check(tca_halo_new(of.get(), &args, &made));
        halo_.reset(made);
    }
    tca_halo *get() const noexcept
    {
        return halo_.get();
    }
    void start() const
    {
        check(tca_halo_start(get()));
    }
    bool test() const
    {
        return check(tca_halo_test(get())) > 0;
    }
    void wait(std::int64_t timeout_ns = TCA_DEFAULT) const
    {
        check(tca_halo_wait(get(), timeout_ns));
    }

  private:
    detail::owner<tca_halo, tca_halo_free> halo_;
};

} // namespace tcapp

#endif
