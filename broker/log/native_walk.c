/* The machine code of `broker/log/batch_walk.py`: the same function, without the interpreter's lock.

Its CRC-32C takes three instructions of SSE 4.2 at a time, one in each of three lanes; where the processor has none,
the import fails, and Python does the work. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { HEADER = 61, LENGTH_OVERHEAD = 12, LEAST_LENGTH = 49, MAGIC = 2, COVERED_FROM = 21, LANE = 1024 };
enum { OF_TRANSACTIONS = 0x30 };
enum { WHOLE, OBSERVE, BAD_CRC, OUT_OF_ORDER, TOO_FAR };

static uint32_t behind_a_lane[4][256]; /* What a CRC is after LANE zero bytes, by the value of each of its bytes. */

static uint32_t times(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (; vector; vector >>= 1, matrix++)
        if (vector & 1) sum ^= *matrix;
    return sum;
}

static void make_table(void) {
    uint32_t one[32], other[32], *by = one, *twice = other;
    by[0] = 0x82f63b78u; /* Castagnoli's polynomial, reversed: what one zero bit makes of the lowest bit */
    for (int bit = 1; bit < 32; bit++) by[bit] = 1u << (bit - 1);
    for (int zeros = 1; zeros < LANE * 8; zeros *= 2) {
        for (int bit = 0; bit < 32; bit++) twice[bit] = times(by, by[bit]);
        uint32_t *before = by;
        by = twice;
        twice = before;
    }
    for (int place = 0; place < 4; place++)
        for (uint32_t value = 0; value < 256; value++) behind_a_lane[place][value] = times(by, value << (8 * place));
}

static uint64_t over_a_lane(uint64_t crc) {
    return behind_a_lane[0][crc & 255] ^ behind_a_lane[1][crc >> 8 & 255] ^ behind_a_lane[2][crc >> 16 & 255] ^
           behind_a_lane[3][crc >> 24 & 255];
}

#ifdef __x86_64__
#include <cpuid.h>

static int has_crc(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx & bit_SSE4_2;
}

static uint64_t word(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

/* Clang, with which compiled wheels are made, has crc32 as a feature of its own. */
__attribute__((target("sse4.2,crc32"))) static uint32_t crc32c(const uint8_t *at, size_t size) {
    uint64_t crc = 0xffffffffu;
    for (; size >= 3 * LANE; at += 2 * LANE, size -= 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (const uint8_t *end = at + LANE; at < end; at += 8) {
            crc = __builtin_ia32_crc32di(crc, word(at));
            second = __builtin_ia32_crc32di(second, word(at + LANE));
            third = __builtin_ia32_crc32di(third, word(at + 2 * LANE));
        }
        crc = over_a_lane(over_a_lane(crc) ^ second) ^ third;
    }
    for (; size >= 8; at += 8, size -= 8) crc = __builtin_ia32_crc32di(crc, word(at));
    for (; size; at++, size--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return (uint32_t)crc ^ 0xffffffffu;
}
#else
static int has_crc(void) { return 0; }
static uint32_t crc32c(const uint8_t *at, size_t size) { return 0; }
#endif

static int64_t int64_at(const uint8_t *at) {
    uint64_t value = 0;
    for (int byte = 0; byte < 8; byte++) value = value << 8 | at[byte];
    return (int64_t)value;
}

static int32_t int32_at(const uint8_t *at) {
    return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

static PyObject *walk(PyObject *module, PyObject *arguments) {
    Py_buffer window;
    Py_ssize_t at, start;
    long long next_offset, unfit_offset, interval, since_entry, largest_ms, largest_offset;
    long latest_epoch;
    if (!PyArg_ParseTuple(arguments, "y*nnLLlLLLL", &window, &at, &start, &next_offset, &unfit_offset, &latest_epoch,
                          &interval, &since_entry, &largest_ms, &largest_offset))
        return NULL;
    if (at < 0 || at > window.len) {
        PyBuffer_Release(&window);
        PyErr_SetString(PyExc_ValueError, "the walk begins outside of its window");
        return NULL;
    }
    const uint8_t *bytes = window.buf;
    /* A batch has 61 bytes or more, and at most one entry. */
    size_t most = (size_t)(window.len - at) / HEADER + 1;
    size_t most_entries = interval > HEADER ? (size_t)(window.len - at) / (size_t)interval + 1 : most;
    Py_ssize_t count = 0, producer_count = 0;
    int64_t(*entries)[4] = PyMem_Malloc(most_entries * sizeof *entries), (*producers)[2] = NULL;
    if (entries != NULL) producers = PyMem_Malloc(most * sizeof *producers);
    if (producers == NULL) {
        PyMem_Free(entries);
        PyBuffer_Release(&window);
        return PyErr_NoMemory();
    }
    Py_ssize_t begun = at;
    long long before = next_offset;
    int why = WHOLE;
    Py_BEGIN_ALLOW_THREADS;
    while (window.len - at >= HEADER) {
        const uint8_t *batch = bytes + at;
        int64_t size = (int64_t)int32_at(batch + 8) + LENGTH_OVERHEAD, base_offset = int64_at(batch);
        if (size > window.len - at || size < LEAST_LENGTH + LENGTH_OVERHEAD || batch[16] != MAGIC) break;
        if (crc32c(batch + COVERED_FROM, (size_t)size - COVERED_FROM) != (uint32_t)int32_at(batch + 17)) {
            why = BAD_CRC;
            break;
        }
        int32_t delta = int32_at(batch + 23);
        if (base_offset < next_offset || delta < 0) {
            why = OUT_OF_ORDER;
            break;
        }
        if (base_offset >= unfit_offset - delta) {
            why = TOO_FAR;
            break;
        }
        long long last_offset = base_offset + delta;
        long long newest_ms = int32_at(batch + 57) ? int64_at(batch + 35) : -1;
        if (newest_ms > largest_ms) largest_ms = newest_ms, largest_offset = last_offset;
        if (since_entry > interval) {
            int64_t *entry = entries[count++];
            entry[0] = last_offset, entry[1] = start + at, entry[2] = largest_ms, entry[3] = largest_offset;
            since_entry = 0;
        }
        since_entry += size;
        begun = at, before = next_offset;
        at += size, next_offset = last_offset + 1;
        int64_t producer_id = int64_at(batch + 43);
        if (int32_at(batch + 12) > latest_epoch || (producer_id != -1 && batch[22] & OF_TRANSACTIONS)) {
            why = OBSERVE;
            break;
        }
        if (producer_id != -1) {
            int64_t *producer = producers[producer_count++];
            producer[0] = producer_id, producer[1] = begun;
        }
    }
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&window);
    PyObject *found = Py_BuildValue("niLLnLLLy#y#", at, why, next_offset, before, begun, since_entry, largest_ms,
                                    largest_offset, (const char *)entries, count * (Py_ssize_t)sizeof *entries,
                                    (const char *)producers, producer_count * (Py_ssize_t)sizeof *producers);
    PyMem_Free(producers);
    PyMem_Free(entries);
    return found;
}

static PyMethodDef methods[] = {{"walk", walk, METH_VARARGS, "See broker/log/batch_walk.py."}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "native_walk", NULL, -1, methods};

PyMODINIT_FUNC PyInit_native_walk(void) {
    if (!has_crc()) {
        PyErr_SetString(PyExc_ImportError, "the processor has no instruction for CRC-32C");
        return NULL;
    }
    make_table();
    return PyModule_Create(&definition);
}
