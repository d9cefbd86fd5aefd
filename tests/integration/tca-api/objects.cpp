// Objects that outlive main(): what they have is given back long after MPI_Finalize(). The program
// has a namespace of the library's name.
#include <memory>
#include <new>
#include <vector>

#include "check.h"

namespace tca
{
struct give_back {
    void operator()(void *memory) const
    {
        TCA_CHECK(tcaFree(memory, tcaMemoryGPU));
    }
};

template <class Item> using memory = std::unique_ptr<Item[], give_back>;

template <class Item> memory<Item> make(std::size_t count)
{
    void *address = nullptr;
    if (tcaMalloc(&address, count * sizeof(Item), tcaMemoryGPU) != TCA_SUCCESS)
        throw std::bad_alloc();
    return memory<Item>(static_cast<Item *>(address));
}

class chain
{
  public:
    chain() : desc_(tcaDescNew())
    {
    }
    ~chain()
    {
        TCA_CHECK(tcaDescFree(desc_));
    }
    chain(const chain &) = delete;
    chain &operator=(const chain &) = delete;
    tcaDesc *get() const
    {
        return desc_;
    }

  private:
    tcaDesc *desc_;
};
} // namespace tca

// Made before main(), ended in the opposite order: the memory goes first, from under the handles.
static std::vector<tcaHandle> handles;
static struct last {
    bool begun;
    ~last()
    {
        if (!begun)
            return;
        TCA_CHECK(tcaWaitDMAC(0));
        TCA_CHECK(tcaDestroyHandle(&handles[0]));
    }
} last;
static std::unique_ptr<tca::chain> chain;
static tca::memory<double> numbers;

int main(int argc, char **argv)
{
    const std::size_t count = 500, bytes = count * sizeof(double);
    begin(&argc, &argv);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    numbers = tca::make<double>(2 * count);
    chain.reset(new tca::chain);
    tcaHandle *list = gather_handles(numbers.get(), 2 * bytes, tcaMemoryGPU);
    handles.assign(list, list + size);
    free(list);
    for (std::size_t i = 0; i < count; i++)
        numbers[i] = rank + 0.25 * static_cast<double>(i);
    barrier();
    TCA_CHECK(tcaDescSetMemcpy(chain->get(), &handles[static_cast<std::size_t>(next)],
                               static_cast<off_t>(bytes), &handles[static_cast<std::size_t>(rank)],
                               0, bytes, tcaDMANotify | tcaDMANotifySelf, 0, 0));
    TCA_CHECK(tcaDescSet(chain->get(), 0));
    TCA_CHECK(tcaStartDMADesc(0));
    TCA_CHECK(tcaWaitDMARecvDesc(&handles[static_cast<std::size_t>(before)], 0, 0));
    for (std::size_t i = 0; i < count; i++)
        REQUIRE(numbers[count + i] == before + 0.25 * static_cast<double>(i));
    last.begun = true;
    return end("objects");
}
