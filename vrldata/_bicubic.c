/* Separable resize of interleaved RGB: weighted sums of rows, then of pixels, in float32.

What lives here: the inner loops of `resize.py`, for machines where a C compiler was at hand when vrl was
installed. The weights come from there, and NumPy does the same sums where this module is missing. Nothing is
clamped between the two passes; results are clamped to 0..255 and rounded half to even at the end. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One binary, with loops for the vector units of newer CPUs that are chosen when it is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_CPU
#endif

/* Samples whose sums stay in registers while their taps are added up. */
#define BLOCK 64

/* Lines of the result that are made together. */
#define LINES 4

/* A pixel and the first channel of the next one, which is summed too and dropped. */
typedef float pixel __attribute__((vector_size(16), aligned(4)));

/* sums[i] = weights[0] * lines[i] + weights[1] * lines[stride + i] + ... */
FOR_EACH_CPU
static void sum_rows(const uint8_t *lines, Py_ssize_t stride, const float *weights, Py_ssize_t taps,
                     float *sums)
{
    for (Py_ssize_t next = 0; next < stride && stride >= BLOCK; next += BLOCK) {
        /* the last block begins earlier, so that it is whole */
        const Py_ssize_t begin = next + BLOCK > stride ? stride - BLOCK : next;
        float block[BLOCK] = {0};
        for (Py_ssize_t tap = 0; tap < taps; tap++) {
            const uint8_t *place = lines + tap * stride + begin;
            for (int i = 0; i < BLOCK; i++)
                block[i] += weights[tap] * (float)place[i];
        }
        memcpy(sums + begin, block, sizeof block);
    }
    for (Py_ssize_t i = 0; i < stride && stride < BLOCK; i++) {
        float sum = 0;
        for (Py_ssize_t tap = 0; tap < taps; tap++)
            sum += weights[tap] * (float)lines[tap * stride + i];
        sums[i] = sum;
    }
}

/* Pixels of LINES lines of the result, not yet rounded, from as many lines of sums. A line of either has a float
to spare at its end. Lines go together because a weight that was loaded serves all of them. */
FOR_EACH_CPU
static void sum_pixels(const float *sums, Py_ssize_t stride, const int32_t *firsts, const float *weights,
                       Py_ssize_t taps, Py_ssize_t width, float *values)
{
    for (Py_ssize_t x = 0; x < width; x++) {
        const float *place = sums + 3 * (Py_ssize_t)firsts[x];
        const float *weight = weights + x * taps;
        pixel first = {0}, second = {0}, third = {0}, fourth = {0};
        for (Py_ssize_t tap = 0; tap < taps; tap++, place += 3) {
            first += weight[tap] * *(const pixel *)place;
            second += weight[tap] * *(const pixel *)(place + stride);
            third += weight[tap] * *(const pixel *)(place + 2 * stride);
            fourth += weight[tap] * *(const pixel *)(place + 3 * stride);
        }
        float *value = values + 3 * x;
        *(pixel *)value = first;
        *(pixel *)(value + 3 * width + 1) = second;
        *(pixel *)(value + 2 * (3 * width + 1)) = third;
        *(pixel *)(value + 3 * (3 * width + 1)) = fourth;
    }
}

/* Clamped to 0..255 and rounded half to even. */
FOR_EACH_CPU
static void round_values(const float *values, Py_ssize_t count, uint8_t *line)
{
    const float to_even = 12582912.0f; /* 1.5 * 2^23 leaves no bits for a fraction */
    for (Py_ssize_t i = 0; i < count; i++) {
        float value = values[i] > 0.0f ? values[i] : 0.0f;
        value = (value < 255.0f ? value : 255.0f) + to_even;
        line[i] = (uint8_t)(int)(value - to_even);
    }
}

/* Where the sums for each result along one axis begin, and their weights. */
typedef struct {
    const int32_t *firsts;
    const float *weights;
    Py_ssize_t results, taps;
} axis;

static void resize_lines(const uint8_t *picture, Py_ssize_t width, axis rows, axis columns, float *sums,
                         float *values, uint8_t *out)
{
    const Py_ssize_t stride = 3 * width + 1, result = 3 * columns.results;
    const int same = columns.results == width;
    for (Py_ssize_t begin = 0; begin < rows.results; begin += LINES) {
        const Py_ssize_t count = rows.results - begin < LINES ? rows.results - begin : LINES;
        for (Py_ssize_t i = 0; i < count; i++)
            sum_rows(picture + 3 * width * rows.firsts[begin + i], 3 * width,
                     rows.weights + (begin + i) * rows.taps, rows.taps, sums + i * stride);
        if (!same)
            sum_pixels(sums, stride, columns.firsts, columns.weights, columns.taps, columns.results, values);
        for (Py_ssize_t i = 0; i < count; i++)
            round_values((same ? sums : values) + i * (result + 1), result, out + result * (begin + i));
    }
}

/* False, with an exception set, where the weights lean on what is not among `samples`. */
static int read_axis(const Py_buffer *firsts, const Py_buffer *weights, Py_ssize_t samples, axis *read)
{
    read->firsts = firsts->buf;
    read->weights = weights->buf;
    read->results = firsts->len / (Py_ssize_t)sizeof(int32_t);
    read->taps = read->results ? weights->len / (Py_ssize_t)sizeof(float) / read->results : 0;
    int fits = read->taps > 0 && read->results * read->taps * (Py_ssize_t)sizeof(float) == weights->len;
    for (Py_ssize_t i = 0; fits && i < read->results; i++)
        fits = read->firsts[i] >= 0 && read->firsts[i] <= samples - read->taps;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the weights do not belong to a picture of this size");
    return fits;
}

enum { PICTURE, ROW_FIRSTS, ROW_WEIGHTS, COLUMN_FIRSTS, COLUMN_WEIGHTS, OUT, BUFFERS };

static int resize_buffers(const Py_buffer *buffers, Py_ssize_t width)
{
    axis rows, columns;
    Py_ssize_t height = width > 0 ? buffers[PICTURE].len / 3 / width : 0;
    if (!read_axis(&buffers[ROW_FIRSTS], &buffers[ROW_WEIGHTS], height, &rows) ||
        !read_axis(&buffers[COLUMN_FIRSTS], &buffers[COLUMN_WEIGHTS], width, &columns))
        return 0;
    if (buffers[OUT].len != 3 * rows.results * columns.results) {
        PyErr_SetString(PyExc_ValueError, "the result has another size than the weights say");
        return 0;
    }
    const size_t floats = (size_t)(LINES * (3 * (width + columns.results) + 2));
    float *sums = calloc(floats, sizeof(float));
    if (!sums) {
        PyErr_NoMemory();
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    resize_lines(buffers[PICTURE].buf, width, rows, columns, sums, sums + LINES * (3 * width + 1), buffers[OUT].buf);
    Py_END_ALLOW_THREADS
    free(sums);
    return 1;
}

static PyObject *resize(PyObject *module, PyObject *arguments)
{
    PyObject *objects[BUFFERS];
    Py_buffer buffers[BUFFERS];
    Py_ssize_t width;
    if (!PyArg_ParseTuple(arguments, "OnOOOOO:resize", &objects[PICTURE], &width, &objects[ROW_FIRSTS],
                          &objects[ROW_WEIGHTS], &objects[COLUMN_FIRSTS], &objects[COLUMN_WEIGHTS],
                          &objects[OUT]))
        return NULL;
    int held = 0, done = 0;
    while (held < BUFFERS &&
           !PyObject_GetBuffer(objects[held], &buffers[held], held == OUT ? PyBUF_WRITABLE : PyBUF_SIMPLE))
        held++;
    if (held == BUFFERS)
        done = resize_buffers(buffers, width);
    while (held)
        PyBuffer_Release(&buffers[--held]);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"resize", resize, METH_VARARGS,
     "resize(picture, width, row_firsts, row_weights, column_firsts, column_weights, out)\n--\n\n"
     "Fill `out`, uint8 (results of rows, results of columns, 3), from `picture`, uint8 (H, `width`, 3).\n\n"
     "Firsts are int32 (results,), weights float32 (results, taps); all are contiguous.\n"
     "ValueError where they do not fit each other. Other threads run meanwhile."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "vrldata._bicubic",
    .m_doc = "Separable resize of interleaved RGB in float32.",
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__bicubic(void)
{
    return PyModuleDef_Init(&definition);
}
