/*
 * The MPI below this library, by the names PMPI_. Ours have both names: Fortran calls those of Open
 * MPI as PMPI_x, and so do tools, which are before us (tca-mpi(1)) and see every call. No file of
 * this room calls a function of the MPI by its name: that would be our own.
 */
#pragma once

/* Ours of the same names are to be seen, too. */
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop

/* What is called below; NEXT_OWN: what one MPI has. */
// clang-format off
#define NEXT_FUNCTIONS(X) \
    X(Send) X(Ssend) X(Bsend) X(Rsend) X(Isend) X(Issend) X(Ibsend) X(Irsend) X(Recv) X(Irecv)     \
    X(Sendrecv) X(Sendrecv_replace) X(Probe) X(Iprobe) X(Mprobe) X(Improbe) X(Mrecv) X(Imrecv)     \
    X(Send_init) X(Ssend_init) X(Bsend_init) X(Rsend_init) X(Recv_init) X(Start) X(Startall)       \
    X(Buffer_attach) X(Buffer_detach) X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test)            \
    X(Testall) X(Testany) X(Testsome) X(Request_free) X(Request_get_status) X(Cancel)              \
    X(Status_set_elements_x) X(Status_set_cancelled) X(Get_count) X(Get_elements_x) X(Comm_rank)   \
    X(Comm_size) X(Comm_test_inter) X(Comm_group) X(Comm_compare) X(Comm_dup)                      \
    X(Comm_dup_with_info) X(Comm_idup) X(Comm_split) X(Comm_split_type) X(Comm_create)             \
    X(Comm_create_group) X(Comm_free) X(Comm_disconnect) X(Comm_create_keyval)                     \
    X(Comm_free_keyval) X(Comm_set_attr) X(Comm_get_attr) X(Comm_delete_attr)                      \
    X(Comm_call_errhandler) X(Comm_get_errhandler) X(Comm_set_errhandler) X(Cart_create)           \
    X(Cart_sub) X(Graph_create) X(Dist_graph_create) X(Dist_graph_create_adjacent)                 \
    X(Intercomm_create) X(Intercomm_merge) X(Comm_remote_size) X(Comm_spawn)                       \
    X(Comm_spawn_multiple) X(Comm_accept) X(Comm_connect) X(Comm_join) X(Group_translate_ranks)    \
    X(Group_free) X(Group_size) X(Init) X(Init_thread) X(Initialized) X(Finalized) X(Finalize)     \
    X(Query_thread) X(Abort) X(Get_library_version) X(Error_class) X(Error_string)                 \
    X(Add_error_class) X(Is_thread_main) X(Type_get_envelope) X(Type_get_contents) X(Type_size_x)  \
    X(Type_size) X(Type_get_extent_x) X(Type_get_true_extent_x) X(Type_get_extent) X(Type_commit)  \
    X(Type_free) X(Type_dup) X(Type_contiguous) X(Type_vector) X(Type_create_hvector)              \
    X(Type_indexed) X(Type_create_hindexed) X(Type_create_indexed_block)                           \
    X(Type_create_hindexed_block) X(Type_create_struct) X(Type_create_subarray)                    \
    X(Type_create_darray) X(Type_create_resized) X(Type_create_keyval) X(Type_free_keyval)         \
    X(Type_set_attr) X(Type_get_attr) X(Type_delete_attr) X(Type_match_size) X(Pack) X(Unpack)     \
    X(Pack_size) X(Alloc_mem) X(Free_mem) X(Barrier) X(Bcast) X(Gather) X(Gatherv) X(Scatter)      \
    X(Scatterv) X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv) X(Alltoallw) X(Reduce)         \
    X(Allreduce) X(Reduce_scatter) X(Reduce_scatter_block) X(Scan) X(Exscan)                       \
    X(Neighbor_allgather) X(Neighbor_allgatherv) X(Neighbor_alltoall) X(Neighbor_alltoallv)        \
    X(Neighbor_alltoallw) X(Ibarrier) X(Ibcast) X(Igather) X(Igatherv) X(Iscatter) X(Iscatterv)    \
    X(Iallgather) X(Iallgatherv) X(Ialltoall) X(Ialltoallv) X(Ialltoallw) X(Ireduce)               \
    X(Iallreduce) X(Ireduce_scatter) X(Ireduce_scatter_block) X(Iscan) X(Iexscan)                  \
    X(Ineighbor_allgather) X(Ineighbor_allgatherv) X(Ineighbor_alltoall) X(Ineighbor_alltoallv)    \
    X(Ineighbor_alltoallw)
#ifdef OPEN_MPI
#define NEXT_OWN(X) \
    X(Request_c2f) X(Request_f2c) X(Message_c2f) X(Message_f2c)
#else
#define NEXT_OWN(X) \
    X(Isendrecv) X(Isendrecv_replace) X(Send_c) X(Ssend_c) X(Bsend_c) X(Rsend_c) X(Isend_c)        \
    X(Issend_c) X(Ibsend_c) X(Irsend_c) X(Recv_c) X(Irecv_c) X(Sendrecv_c) X(Sendrecv_replace_c)   \
    X(Isendrecv_c) X(Isendrecv_replace_c) X(Mrecv_c) X(Imrecv_c) X(Send_init_c) X(Ssend_init_c)    \
    X(Bsend_init_c) X(Rsend_init_c) X(Recv_init_c) X(Buffer_attach_c) X(Buffer_detach_c)           \
    X(Comm_idup_with_info) X(Comm_create_from_group) X(Type_get_envelope_c)                        \
    X(Type_get_contents_c) X(Bcast_c) X(Allgather_c) X(Alltoall_c) X(Reduce_c) X(Allreduce_c)          \
    X(Reduce_scatter_block_c)
#endif
// clang-format on

struct next {
#define NEXT_MEMBER(name) __typeof__(&MPI_##name) name;
    NEXT_FUNCTIONS(NEXT_MEMBER)
    NEXT_OWN(NEXT_MEMBER)
#undef NEXT_MEMBER
};

/* Filled in when the library is loaded. */
extern struct next next;
