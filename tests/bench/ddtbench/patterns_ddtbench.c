/*
 * DDTBench's patterns, with the sizes that its authors took from runs of the applications. Arrays
 * are in Fortran's order: the first index has no gaps. Several arrays of one application lie one
 * after the other in the area.
 */
#include "tests/bench/ddtbench/pattern.h"

enum { FLOAT = 4, DOUBLE = 8, COMPLEX = 16 };

#define ARRAYS_MAX 9

/* Arrays that are sent in parts, as one struct. */
struct arrays {
    uint64_t count;
    int64_t end_bytes;
    int64_t offsets_bytes[ARRAYS_MAX];
    const struct form *forms[ARRAYS_MAX];
};

/* The next array, of so many bytes; what is sent of it begins first_bytes into it. */
static void add_array(struct arrays *arrays, int64_t bytes, int64_t first_bytes,
                      const struct form *form)
{
    arrays->offsets_bytes[arrays->count] = arrays->end_bytes + first_bytes;
    arrays->forms[arrays->count++] = form;
    arrays->end_bytes += (bytes + 63) & ~(int64_t)63;
}

static const struct form *arrays_form(struct shelf *shelf, const struct arrays *arrays)
{
    return form_struct(shelf, arrays->count, arrays->offsets_bytes, arrays->forms);
}

/* ---- WRF: the halo of a weather model, three points wide, of four 2-D, three 3-D and two 4-D
 * arrays of floats. Numbers: the memory's size in i and j; first and count in i; first and count in
 * j. All 65 levels in k. */

#define WRF_LEVELS  65
#define WRF_SCALARS 2 /* the fourth index of the 4-D arrays; only the second scalar is sent */

static void wrf(struct pattern *pattern, const int32_t *n, bool as_subarrays)
{
    struct shelf *shelf = pattern->shelf;
    int64_t row = n[0] * FLOAT, level = row, plane = row * WRF_LEVELS;
    int64_t flat = row * n[1], volume = plane * n[1];
    int64_t corner_2d = n[2] * FLOAT + n[4] * row, corner_3d = n[2] * FLOAT + n[4] * plane;
    const struct form *run = form_run(shelf, FLOAT, (uint64_t)n[3]);
    const struct form *part_2d = form_vector(shelf, (uint64_t)n[5], row, run);
    const struct form *part_3d =
        form_vector(shelf, (uint64_t)n[5], plane, form_vector(shelf, WRF_LEVELS, level, run));
    struct arrays arrays = {0};

    if (as_subarrays) {
        part_2d = form_subarray(shelf, FLOAT, 2, (int32_t[]){n[0], n[1]}, (int32_t[]){n[3], n[5]},
                                (int32_t[]){n[2], n[4]});
        part_3d = form_subarray(shelf, FLOAT, 3, (int32_t[]){n[0], WRF_LEVELS, n[1]},
                                (int32_t[]){n[3], WRF_LEVELS, n[5]}, (int32_t[]){n[2], 0, n[4]});
        corner_2d = corner_3d = 0; /* in the subarray */
    }
    for (int i = 0; i < 4; i++)
        add_array(&arrays, flat, corner_2d, part_2d);
    for (int i = 0; i < 3; i++)
        add_array(&arrays, volume, corner_3d, part_3d);
    for (int i = 0; i < 2; i++)
        add_array(&arrays, volume * WRF_SCALARS, volume + corner_3d, part_3d);
    pattern->send = pattern->receive = arrays_form(shelf, &arrays);
    pattern->area_bytes = (uint64_t)arrays.end_bytes;
}

static void wrf_vectors(struct pattern *pattern, const int32_t *numbers)
{
    wrf(pattern, numbers, false);
}

static void wrf_subarrays(struct pattern *pattern, const int32_t *numbers)
{
    wrf(pattern, numbers, true);
}

/* ---- MILC: lattice QCD, the z-down face of a field of SU(3) vectors (six floats) on x * y * z * t
 * points, even and odd points apart. Numbers: x, y, z, t. */

static void milc(struct pattern *pattern, const int32_t *n)
{
    int64_t vector_bytes = 6 * FLOAT, half_plane = n[0] * n[1] / 2;
    const struct form *plane = form_run(pattern->shelf, FLOAT, 6 * (uint64_t)half_plane);
    const struct form *planes =
        form_vector(pattern->shelf, (uint64_t)n[3], half_plane * n[2] * vector_bytes, plane);
    int64_t parity_bytes = half_plane * n[2] * n[3] * vector_bytes;

    pattern->send = pattern->receive = form_vector(pattern->shelf, 2, parity_bytes, planes);
    pattern->area_bytes = 2 * (uint64_t)parity_bytes;
}

/* ---- NAS LU: five doubles at each point of n * n, with a halo of one. x: a row, y: a column.
 * Numbers: n. */

static int64_t lu_at(int64_t n, int64_t x, int64_t y)
{
    return (y * (n + 2) + x) * 5 * DOUBLE;
}

static void lu_x(struct pattern *pattern, const int32_t *n)
{
    pattern->send = pattern->receive = form_run(pattern->shelf, DOUBLE, 5 * (uint64_t)n[0]);
    pattern->send_at = lu_at(n[0], 1, n[0]);
    pattern->receive_at = lu_at(n[0], 1, 0);
    pattern->area_bytes = (uint64_t)lu_at(n[0], 0, n[0] + 2);
}

static void lu_y(struct pattern *pattern, const int32_t *n)
{
    pattern->send = pattern->receive = form_vector(
        pattern->shelf, (uint64_t)n[0], lu_at(n[0], 0, 1), form_run(pattern->shelf, DOUBLE, 5));
    pattern->send_at = lu_at(n[0], n[0], 1);
    pattern->receive_at = lu_at(n[0], 0, 1);
    pattern->area_bytes = (uint64_t)lu_at(n[0], 0, n[0] + 2);
}

/* ---- NAS MG: faces of a box of doubles, without its edges. Numbers: the sizes. */

static int64_t mg_at(const int32_t *n, int64_t x, int64_t y, int64_t z)
{
    return ((z * n[1] + y) * n[0] + x) * DOUBLE;
}

static void mg(struct pattern *pattern, const int32_t *n, const struct form *face, int64_t send_at,
               int64_t receive_at)
{
    pattern->send = pattern->receive = face;
    pattern->send_at = send_at;
    pattern->receive_at = receive_at;
    pattern->area_bytes = (uint64_t)mg_at(n, 0, 0, n[2]);
}

static void mg_x(struct pattern *pattern, const int32_t *n)
{
    const struct form *column = form_vector(pattern->shelf, (uint64_t)n[1] - 2, mg_at(n, 0, 1, 0),
                                            form_run(pattern->shelf, DOUBLE, 1));

    mg(pattern, n, form_vector(pattern->shelf, (uint64_t)n[2] - 2, mg_at(n, 0, 0, 1), column),
       mg_at(n, n[0] - 2, 1, 1), mg_at(n, n[0] - 1, 1, 1));
}

static void mg_y(struct pattern *pattern, const int32_t *n)
{
    const struct form *row = form_run(pattern->shelf, DOUBLE, (uint64_t)n[0] - 2);

    mg(pattern, n, form_vector(pattern->shelf, (uint64_t)n[2] - 2, mg_at(n, 0, 0, 1), row),
       mg_at(n, 1, n[1] - 2, 1), mg_at(n, 1, n[1] - 1, 1));
}

static void mg_z(struct pattern *pattern, const int32_t *n)
{
    const struct form *row = form_run(pattern->shelf, DOUBLE, (uint64_t)n[0] - 2);

    mg(pattern, n, form_vector(pattern->shelf, (uint64_t)n[1] - 2, mg_at(n, 0, 1, 0), row),
       mg_at(n, 1, 1, 1), mg_at(n, 1, 1, 0));
}

/* ---- LAMMPS: properties of atoms that leave, picked from arrays by a list, appended to the
 * neighbour's arrays. Positions are three doubles, every other property one. Numbers: atoms that
 * leave, atoms here. */

static void lammps(struct pattern *pattern, const int32_t *n, int scalars)
{
    struct shelf *shelf = pattern->shelf;
    uint64_t leaving = (uint64_t)n[0], here = (uint64_t)n[1];
    int64_t room = n[0] + n[1];
    struct arrays from = {0}, to = {0};

    /* the same seed: the same atoms in each array */
    add_array(&from, 3 * room * DOUBLE, 0, form_random(shelf, DOUBLE, leaving, 3, here, leaving));
    add_array(&to, 3 * room * DOUBLE, 3 * n[1] * DOUBLE, form_run(shelf, DOUBLE, 3 * leaving));
    for (int i = 0; i < scalars; i++) {
        add_array(&from, room * DOUBLE, 0, form_random(shelf, DOUBLE, leaving, 1, here, leaving));
        add_array(&to, room * DOUBLE, n[1] * DOUBLE, form_run(shelf, DOUBLE, leaving));
    }
    pattern->send = arrays_form(shelf, &from);
    pattern->receive = arrays_form(shelf, &to);
    pattern->area_bytes = (uint64_t)from.end_bytes;
}

static void lammps_full(struct pattern *pattern, const int32_t *numbers)
{
    lammps(pattern, numbers, 5); /* tag, type, mask, charge, molecule */
}

static void lammps_atomic(struct pattern *pattern, const int32_t *numbers)
{
    lammps(pattern, numbers, 3); /* tag, type, mask */
}

/* ---- SPECFEM3D: seismic waves; points of an unstructured mesh, by lists. oc: one float each
 * (outer core). cm: three floats each, of two arrays (crust and mantle, inner core). mt: every
 * other three floats, into a buffer. Numbers: points sent, points. */

static void specfem_oc(struct pattern *pattern, const int32_t *n)
{
    pattern->send = pattern->receive =
        form_random(pattern->shelf, FLOAT, (uint64_t)n[0], 1, (uint64_t)n[1], (uint64_t)n[0]);
    pattern->area_bytes = (uint64_t)n[1] * FLOAT;
}

static void specfem_cm(struct pattern *pattern, const int32_t *n)
{
    struct arrays arrays = {0};

    for (int i = 0; i < 4; i += 2)
        add_array(&arrays, 3 * (int64_t)n[i + 1] * FLOAT, 0,
                  form_random(pattern->shelf, FLOAT, (uint64_t)n[i], 3, (uint64_t)n[i + 1],
                              (uint64_t)n[i]));
    pattern->send = pattern->receive = arrays_form(pattern->shelf, &arrays);
    pattern->area_bytes = (uint64_t)arrays.end_bytes;
}

static void specfem_mt(struct pattern *pattern, const int32_t *n)
{
    const struct form *point = form_run(pattern->shelf, FLOAT, 3);

    pattern->send = form_vector(pattern->shelf, (uint64_t)n[0], 2 * 3 * FLOAT, point);
    pattern->receive = form_run(pattern->shelf, FLOAT, 3 * (uint64_t)n[0]);
    pattern->receive_at = (int64_t)n[0] * 2 * 3 * FLOAT;
    pattern->area_bytes = (uint64_t)n[0] * 3 * 3 * FLOAT;
}

/* ---- FFT: the transposition of an n * n matrix of complex doubles, rows over two ranks. Numbers:
 * n. */

static void fft2(struct pattern *pattern, const int32_t *n)
{
    uint64_t rows = (uint64_t)n[0] / 2;
    int64_t row = (int64_t)n[0] * COMPLEX;
    const struct form *column =
        form_vector(pattern->shelf, rows, row, form_run(pattern->shelf, COMPLEX, 1));

    pattern->exchange = true;
    pattern->send = form_vector(pattern->shelf, rows, row, form_run(pattern->shelf, COMPLEX, rows));
    pattern->receive = form_vector(pattern->shelf, rows, COMPLEX, column);
    pattern->send_step = pattern->receive_step = rows * COMPLEX;
    pattern->half_bytes = rows * (uint64_t)row;
    pattern->area_bytes = 2 * pattern->half_bytes;
}

/* clang-format off */
const struct pattern_entry ddtbench_patterns[] = {
    {"WRF_y_vec", wrf_vectors,  90804, {32, 52, 5, 23, 7, 3}},
    {"WRF_y_sa", wrf_subarrays, 90804, {32, 52, 5, 23, 7, 3}},
    {"WRF_y_vec", wrf_vectors,  75012, {27, 41, 4, 19, 7, 3}},
    {"WRF_y_sa", wrf_subarrays, 75012, {27, 41, 4, 19, 7, 3}},
    {"WRF_y_vec", wrf_vectors,  63168, {24, 34, 4, 16, 7, 3}},
    {"WRF_y_sa", wrf_subarrays, 63168, {24, 34, 4, 16, 7, 3}},
    {"WRF_y_vec", wrf_vectors,  55272, {22, 30, 4, 14, 7, 3}},
    {"WRF_y_sa", wrf_subarrays, 55272, {22, 30, 4, 14, 7, 3}},
    {"WRF_y_vec", wrf_vectors,  43428, {19, 24, 4, 11, 7, 3}},
    {"WRF_y_sa", wrf_subarrays, 43428, {19, 24, 4, 11, 7, 3}},
    {"WRF_x_vec", wrf_vectors,  173712, {32, 52, 22, 3, 4, 44}},
    {"WRF_x_sa", wrf_subarrays, 173712, {32, 52, 22, 3, 4, 44}},
    {"WRF_x_vec", wrf_vectors,  102648, {24, 34, 14, 3, 4, 26}},
    {"WRF_x_sa", wrf_subarrays, 102648, {24, 34, 14, 3, 4, 26}},
    {"WRF_x_vec", wrf_vectors,  63168, {19, 24, 9, 3, 4, 16}},
    {"WRF_x_sa", wrf_subarrays, 63168, {19, 24, 9, 3, 4, 16}},
    {"MILC_su3_zd", milc, 98304, {16, 16, 16, 16}},
    {"MILC_su3_zd", milc, 49152, {8, 16, 16, 16}},
    {"MILC_su3_zd", milc, 24576, {8, 8, 8, 16}},
    {"MILC_su3_zd", milc, 12288, {8, 8, 8, 8}},
    {"NAS_LU_x", lu_x, 480, {12}},
    {"NAS_LU_y", lu_y, 480, {12}},
    {"NAS_LU_x", lu_x, 1320, {33}},
    {"NAS_LU_y", lu_y, 1320, {33}},
    {"NAS_LU_x", lu_x, 2560, {64}},
    {"NAS_LU_y", lu_y, 2560, {64}},
    {"NAS_LU_x", lu_x, 4080, {102}},
    {"NAS_LU_y", lu_y, 4080, {102}},
    {"NAS_LU_x", lu_x, 6480, {162}},
    {"NAS_LU_y", lu_y, 6480, {162}},
    {"NAS_LU_x", lu_x, 16320, {408}},
    {"NAS_LU_y", lu_y, 16320, {408}},
    {"NAS_LU_x", lu_x, 40800, {1020}},
    {"NAS_LU_y", lu_y, 40800, {1020}},
    {"NAS_MG_x", mg_x, 2048, {34, 18, 18}},
    {"NAS_MG_y", mg_y, 4096, {34, 18, 18}},
    {"NAS_MG_z", mg_z, 4096, {34, 18, 18}},
    {"NAS_MG_x", mg_x, 32768, {130, 66, 66}},
    {"NAS_MG_y", mg_y, 65536, {130, 66, 66}},
    {"NAS_MG_z", mg_z, 65536, {130, 66, 66}},
    {"NAS_MG_x", mg_x, 131072, {258, 130, 130}},
    {"NAS_MG_y", mg_y, 262144, {258, 130, 130}},
    {"NAS_MG_z", mg_z, 262144, {258, 130, 130}},
    {"NAS_MG_x", mg_x, 524288, {514, 258, 258}},
    {"NAS_MG_y", mg_y, 1048576, {514, 258, 258}},
    {"NAS_MG_z", mg_z, 1048576, {514, 258, 258}},
    {"LAMMPS_full", lammps_full, 195968, {3062, 3534}},
    {"LAMMPS_full", lammps_full, 143552, {2243, 2597}},
    {"LAMMPS_full", lammps_full, 106368, {1662, 1907}},
    {"LAMMPS_atomic", lammps_atomic, 11664, {243, 4084}},
    {"LAMMPS_atomic", lammps_atomic, 6960, {145, 2157}},
    {"LAMMPS_atomic", lammps_atomic, 5472, {114, 1217}},
    {"SPECFEM3D_oc", specfem_oc, 12900, {3225, 88881}},
    {"SPECFEM3D_oc", specfem_oc, 7588, {1897, 38585}},
    {"SPECFEM3D_oc", specfem_oc, 3508, {877, 12857}},
    {"SPECFEM3D_oc", specfem_oc, 1972, {493, 3697}},
    {"SPECFEM3D_cm", specfem_cm, 177672, {11797, 834917, 3009, 51153}},
    {"SPECFEM3D_cm", specfem_cm, 106248, {7125, 396849, 1729, 22477}},
    {"SPECFEM3D_cm", specfem_cm, 55224, {3801, 152001, 801, 7209}},
    {"SPECFEM3D_cm", specfem_cm, 26424, {1957, 39929, 245, 1225}},
    {"SPECFEM3D_mt", specfem_mt, 91200, {7600}},
    {"SPECFEM3D_mt", specfem_mt, 76800, {6400}},
    {"SPECFEM3D_mt", specfem_mt, 67200, {5600}},
    {"SPECFEM3D_mt", specfem_mt, 74400, {6200}},
    {"FFT2", fft2, 524288, {256}},
    {"FFT2", fft2, 2097152, {512}},
    {"FFT2", fft2, 4718592, {768}},
    {"FFT2", fft2, 8388608, {1024}},
    {NULL},
};
/* clang-format on */
